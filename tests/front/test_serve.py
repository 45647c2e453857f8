"""`holdfast serve`: what it shows, and what it refuses to strangers, other names, odd paths."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.commands import main
from holdfast.commands.serve_command import command as serve
from holdfast.harness.campaigns.run_index import RunIndex
from holdfast.harness.core.verdict import READABLE
from holdfast.harness.history.reader import load
from holdfast.harness.runs import directory, registry
from holdfast.harness.runs.directory import RunDir
from holdfast.reports.many import browse
from holdfast.serve import judged_so_far
from holdfast.serve.server import POLICY, Server
from tests import needs
from tests.front.said import holdfast

TOKEN = "a-token-of-twenty-one"
EVIL = "<script>alert(1)</script>\u202e'\""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that holds and one that does not, from the simulator; the third is hostile."""
    root = tmp_path_factory.mktemp("runs")
    for system in ("reference", "majority"):
        words = ["run", "--backend", "sim", "--system", system, "--time", "6s", "--lease", "1s"]
        words += ["--nemesis", "kill:target=leader", "--seed", "7", "--out", str(root)]
        with pytest.raises(SystemExit):
            main(words)
    made = sorted(path for path in root.iterdir() if not path.is_symlink())
    return _with_foe(root, made[0])


def _with_foe(root: Path, pattern: Path) -> Path:
    """A copy whose every text is hostile, with links that lead outside."""
    foe = root / "foe<b>&"
    shutil.copytree(pattern, foe)
    verdicts = json.loads((foe / "verdicts.json").read_text())
    verdicts["system"] = verdicts["command"] = EVIL
    verdicts["verdicts"][0]["reason"] = EVIL + "A" * 1_000_000
    (foe / "verdicts.json").write_text(json.dumps(verdicts))
    manifest = json.loads((foe / "manifest.json").read_text())
    manifest["plan"]["system"] = EVIL
    (foe / "manifest.json").write_text(json.dumps(manifest))
    logs = foe / "logs" / "n1"
    logs.mkdir(parents=True)
    (logs / "server.log").write_text(EVIL)
    (root / "secret.txt").write_text("secret")
    (logs / "link.log").symlink_to(root / "secret.txt")
    (root / "outside").symlink_to("/etc")
    return root


@contextmanager
def served(
    root: Path, token: str = "", judge: str = "print('{}')", host: str = "127.0.0.1"
) -> Iterator[Server]:
    """A server at a free port of loopback, ended on every way out."""
    server = Server((host, 0), RunIndex(root, [sys.executable, "-c", judge]), token)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, body; the path is sent as it is."""
    host, port = server.server_address[:2]
    line = http.client.HTTPConnection(str(host), port, timeout=20)
    try:
        line.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            line.putheader(name.replace("_", "-"), value)
        line.endheaders()
        answer = line.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()
    finally:
        line.close()


def ids(server: Server) -> list[str]:
    return [entry.id for entry in server.shelf.entries()]


def test_all_runs_are_listed_and_links_are_not_followed(runs: Path) -> None:
    with served(runs) as server:
        status, _, body = ask(server, "/")
        assert status == 200
        assert b"3 runs" in body
        assert not any("latest" in one or "outside" in one for one in ids(server))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("verdict=VIOLATED", 1),
        ("system=reference", 1),
        ("nemesis=kill", 3),
        ("nemesis=clock", 0),
        ("property=token-order", 1),
        ("property=no-stale-write&verdict=HOLDS", 0),
    ],
)
def test_the_list_is_narrowed(runs: Path, query: str, found: int) -> None:
    with served(runs) as server:
        text = ask(server, f"/?{query}")[2].decode()
        assert text.count('class="id">') == found


def _copies(runs: Path, root: Path, origins: list[dict[str, str]]) -> list[str]:
    """Copies of a judged run with these origins and seeds 0, 1, ...; their names."""
    pattern = next(one for one in runs.iterdir() if "majority" in one.name)
    names = [f"run{n}" for n in range(len(origins))]
    for n, (name, origin) in enumerate(zip(names, origins, strict=True)):
        shutil.copytree(pattern, root / name, ignore=shutil.ignore_patterns("history", "logs"))
        manifest = json.loads((root / name / "manifest.json").read_text())
        manifest["plan"]["seed"] = n
        manifest |= {"run": name, "origin": origin}
        (root / name / "manifest.json").write_text(json.dumps(manifest))
        # The order of the list is that of the manifests.
        os.utime(root / name / "manifest.json", (2_000_000_000 - n,) * 2)
    return names


def test_attempts_are_folded_below_their_run_and_found_there(runs: Path, tmp_path: Path) -> None:
    own: dict[str, str] = {"name": "before the fix <b>", "of": "", "by": ""}
    attempts = [{"name": "", "of": "run0", "by": "shrink"}] * 3
    nested = [{"name": "", "of": "run1", "by": "replay"}, {"name": "", "of": "sweep ttl", "by": ""}]
    circle = [{"name": "", "of": "run7", "by": ""}, {"name": "", "of": "run6", "by": ""}]
    _copies(runs, tmp_path, [own, *attempts, *nested, *circle])
    with served(tmp_path) as server:
        text = ask(server, "/")[2].decode()
        rows = text[text.index("<tbody", text.index("Table of runs")) :].split("<tr ")[1:]
        assert len(rows) == 4, "run0, the sweep, and each run of the circle"
        assert "4 attempts: 3 by shrink, 1 by replay; 4 VIOLATED" in rows[0]
        assert "before the fix &lt;b&gt;" in rows[0] and "<b>before" not in rows[0].replace(
            "<b><bdi>", ""
        )
        assert "sweep ttl" in rows[1] and "1 attempt: 1 by run" in rows[1]
        assert "4 runs and 4 attempts" in text
        assert "Trend over 4 judged runs" in ask(server, "/trend")[2].decode()
        for query, found in (
            ("q=BEFORE+the+fix", 1), ("q=seed+4", 1), ("seed=3", 1), ("seed=33", 0), ("q=ttl", 1),
            ("q=majority+kill", 4), ("workload=critical-section", 4), ("q=%3Cscript%3E", 0),
        ):  # fmt: skip
            assert ask(server, f"/?{query}")[2].decode().count('class="id"') == found, query
        assert "An attempt of" in ask(server, "/run?id=run1")[2].decode()


def test_a_long_list_has_pages_that_keep_the_search(runs: Path, tmp_path: Path) -> None:
    none: dict[str, str] = {}
    _copies(runs, tmp_path, [none] * (browse.PER_PAGE + 7))
    with served(tmp_path) as server:
        first = ask(server, "/?system=majority")[2].decode()
        assert first.count('class="id"') == browse.PER_PAGE
        assert 'href="/?system=majority&amp;page=2" rel="next"' in first
        second = ask(server, "/?system=majority&page=2")[2].decode()
        assert second.count('class="id"') == 7 and 'rel="prev"' in second
        for odd in ("0", "-1", "99999", "9" * 400, "x", "²"):
            status, _, _ = ask(server, f"/?page={quote(odd)}")
            assert status == 200, odd


def test_the_map_of_all_runs_leads_to_the_run_that_shows_it(runs: Path) -> None:
    with served(runs) as server:
        for path in ("/", "/map"):
            text = ask(server, path)[2].decode()
            cell = text[text.index('class="cell broken"') :]
            ident = next(one for one in ids(server) if "majority" in one)
            assert f'<a href="/run?id={quote(ident, safe="")}">' in cell[: cell.index("</td>")]
            assert EVIL not in text
        assert 'class="cell broken"' not in ask(server, "/?system=reference")[2].decode()


def test_each_property_of_a_run_has_its_own_state(runs: Path) -> None:
    states = set()
    with served(runs) as server:
        for folder in (one for one in runs.iterdir() if one.name.endswith("-7")):
            table = json.loads((folder / "verdicts.json").read_text())
            _, _, body = ask(server, f"/run?id={folder.name}")
            rows = re.findall(
                r'<th [^>]*scope="row">([^<]*)</th><td[^>]*>(.*?)</td>', body.decode(), re.S
            )
            shown = {name: re.sub(r"<[^>]*>", "", cell).strip() for name, cell in rows}
            for row in table["verdicts"]:
                limit = row["verdict"] == "VIOLATED" and not row["promised"]
                state = "LIMIT" if limit else row["verdict"]
                assert shown[row["property"].replace("-", " ")] == state
                states.add(state)
    assert {"HOLDS", "VIOLATED"} <= states


def test_two_runs_stand_side_by_side_with_their_differences_marked(runs: Path) -> None:
    with served(runs) as server:
        chosen = "&".join(f"run={quote(one)}" for one in ids(server) if "foe" not in one)
        status, _, body = ask(server, f"/compare?{chosen}")
        assert status == 200
        rows = body.decode().split("<tr")
        differing = [row for row in rows if row.startswith(' class="differs"')]
        assert any("token order" in row for row in differing)
        assert not any(">workload<" in row for row in differing)
        # A limit is called one everywhere, never a violation of what was not promised.
        for row in rows:
            if "(never promised)" in row:
                assert "VIOLATED" not in row
        assert ask(server, "/compare?run=nobody")[0] == 400


def test_a_run_is_sent_as_a_zip_without_what_its_links_lead_to(runs: Path) -> None:
    with served(runs) as server:
        ident = next(one for one in ids(server) if "foe" in one)
        status, headers, body = ask(server, f"/zip?id={quote(ident)}")
        assert status == 200
        assert headers["content-disposition"] == 'attachment; filename="foe_b__.zip"'
        names = zipfile.ZipFile(io.BytesIO(body)).namelist()
        assert "foe<b>&/manifest.json" in names
        assert not any("link.log" in name or "secret" in name for name in names)
        assert ask(server, f"/log?id={quote(ident)}&name=n1/link.log")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/run?id=../../../etc",
        "/run?id=/etc",
        "/run?id=outside",
        "/run?id=latest",
        "/report?id=..",
        "/zip?id=.",
        "/log?id=ID&name=../../../manifest.json",
        "/log?id=ID&name=/etc/passwd",
        "/log?id=ID&name=..%2f..%2fmanifest.json",
        "//evil.example/",
        "/style.css/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/run?id=%00",
    ],
)
def test_no_path_leads_out_of_the_folder(runs: Path, path: str) -> None:
    with served(runs) as server:
        status, _, body = ask(server, path.replace("ID", quote(ids(server)[0])))
        assert status == 404
        assert b"root:" not in body


def test_every_page_carries_the_policy_and_no_script(runs: Path) -> None:
    with served(runs) as server:
        ident = quote(next(one for one in ids(server) if "foe" in one), safe="")
        for path in ("/", f"/run?id={ident}", f"/log?id={ident}&name=n1/server.log", "/nothing"):
            _, headers, body = ask(server, path)
            assert headers["content-security-policy"] == POLICY
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            if headers["content-type"].startswith("text/html"):
                assert b"<script" not in body
                assert b"<b>&" not in body
                assert "\u202e".encode() not in body
                assert len(body) < 100_000
            else:
                assert headers["content-type"].startswith("text/plain")


def test_a_report_is_shut_into_an_origin_of_its_own(runs: Path) -> None:
    with served(runs) as server:
        ident = quote(next(one for one in ids(server) if "foe" not in one), safe="")
        status, headers, body = ask(server, f"/report?id={ident}")
        assert status == 200
        assert body.rstrip().endswith(b"</html>")
        policy = headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts allow-downloads; default-src 'none'")
        assert "allow-same-origin" not in policy


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "", "127.0.0.1.x"]
)
def test_another_name_for_this_host_is_refused(runs: Path, host: str) -> None:
    with served(runs) as server:
        assert ask(server, "/", Host=host)[0] == 421


def test_it_listens_at_an_address_of_ipv6_under_its_own_names_only(runs: Path) -> None:
    needs.ipv6()
    with served(runs, host="::1") as server:
        port = server.server_address[1]
        assert server.place == f"[::1]:{port}"
        assert ask(server, "/")[0] == 200
        for host in (f"[::1]:{port}", f"localhost:{port}"):
            assert ask(server, "/", Host=host)[0] == 200
        for host in ("[::1]", f"::1:{port}", f"[::2]:{port}", f"evil.example:{port}"):
            assert ask(server, "/", Host=host)[0] == 421
    with served(runs, TOKEN, host="::1") as server:
        assert ask(server, "/", Host="anybody")[0] == 401
        assert ask(server, "/", Authorization=f"Bearer {TOKEN}")[0] == 200


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/?" + "&".join(f"f{n}=1" for n in range(41)), "Max number of fields exceeded"),
        ("/run?" + "&" * 41, "Max number of fields exceeded"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_a_traceback(
    runs: Path, capsys: pytest.CaptureFixture[str], path: str, why: str
) -> None:
    with served(runs) as server:
        status, _, body = ask(server, path)
        assert status == 400 and why in body.decode()
        assert ask(server, "/?" + "&".join(f"f{n}=1" for n in range(40)))[0] == 200
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_it_only_reads(runs: Path, method: str) -> None:
    with served(runs) as server:
        assert ask(server, "/", method)[0] == 501
        assert ask(server, "/", "HEAD")[2] == b""


def test_a_stranger_needs_the_token_and_keeps_it_in_a_cookie(runs: Path) -> None:
    with served(runs, TOKEN) as server:
        for path in ("/", "/style.css", f"/zip?id={quote(ids(server)[0])}", "/?token=wrong"):
            assert ask(server, path, Host="anybody")[0] == 401
        status, headers, _ = ask(server, f"/?token={TOKEN}&verdict=HOLDS")
        assert (status, headers["location"]) == (303, "/?verdict=HOLDS")
        cookie = headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        assert ask(server, "/", Cookie=cookie.split(";")[0])[0] == 200
        assert ask(server, "/", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(server, "/", Authorization="Bearer wrong")[0] == 401
        assert ask(server, f"//evil.example/?token={TOKEN}")[1]["location"] == "/evil.example/"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "add --allow-remote"),
        (("--host", "192.0.2.1"), "add --allow-remote"),
        (("--host", "::"), "add --allow-remote"),
        (("--host", "[2001:db8::1]"), "--host 2001:db8::1 is reachable from other machines"),
        (("--host", "example.org"), "add --allow-remote"),
        (("--runs", "nowhere"), "no such folder"),
        (("--token-file", "short"), "--token-file requires --allow-remote"),
        (("--allow-remote", "--token-file", "short"), "at least 16"),
        (("--allow-remote", "--token-file", "none"), "cannot be read"),
    ],
)
def test_a_careless_start_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("abc\n")
    here = () if "--runs" in words else ("--runs", ".")
    found = holdfast(capsys, "serve", *here, *words)
    assert found.code == 2
    assert said in found.err


def test_a_port_that_is_taken_is_an_environment_that_failed(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    with served(runs) as server:
        port = server.server_address[1]
        found = holdfast(capsys, "serve", "--runs", runs, "--port", port)
    assert found.code == 4
    assert "try another --port" in found.err


def test_a_running_run_is_shown_with_its_first_violation(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    going = tmp_path / "runs" / "going"
    source = next(p for p in sorted(runs.iterdir()) if p.is_dir() and not p.is_symlink())
    shutil.copytree(source, going)
    (going / "verdicts.json").unlink()
    registry.note("going", run_dir=going, label="x")
    said = {"ops": 10, "grants": 4, "t_ns": 5, "violated": [{
        "property": "token-order", "promised": True, "findings": 2, "kind": "token-step-down",
        "sentence": f"c1 went back {EVIL}", "at_ns": 1_500_000_000}]}  # fmt: skip
    with served(tmp_path / "runs", judge=f"print({json.dumps(said)!r})") as server:
        bound = threading.Event()
        for _ in range(200):
            _, headers, body = ask(server, "/run?id=going")
            if b"went back" in body:
                break
            bound.wait(0.05)
        assert headers["refresh"] == "2"
        assert b"token order violated" in body
        assert b"at 1.500 s, the first of 2" in body
        assert b"<script" not in body
        assert "refresh" not in ask(server, "/run?id=going&still=1")[1]
        registry.forget("going")
        assert b"unjudged" in ask(server, "/run?id=going")[2]


def test_rows_later_than_the_look_are_left_out(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = next(
        RunDir(p)
        for p in sorted(runs.iterdir())
        if p.is_dir() and not p.is_symlink() and '"VIOLATED"' in (p / "verdicts.json").read_text()
    )
    rows = load(broken.history).history.rows
    first, last = int(rows["t_inv"].min()), int(rows["t_ret"].max())
    monkeypatch.setattr(judged_so_far, "now_ns", lambda: last + 1)
    whole = judged_so_far.so_far(broken)
    assert [one["property"] for one in whole["violated"]] == ["token-order"]
    assert whole["ops"] == len(rows)
    early = directory.read_json(broken.verdicts, *READABLE)["start_ns"]
    moment = whole["violated"][0]["at_ns"] + early - 1_000_000
    monkeypatch.setattr(judged_so_far, "now_ns", lambda: moment)
    before = judged_so_far.so_far(broken)
    assert before["violated"] == []
    assert 0 < before["ops"] < whole["ops"]
    assert first < moment


def test_a_damaged_run_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    shutil.copytree(runs, root, symlinks=True)
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"schema": "holdfast-run/9"}')):
        (root / name).mkdir()
        (root / name / "manifest.json").write_text(text)
    with served(root) as server:
        body = ask(server, "/")[2].decode()
        assert "6 runs" in body
        assert body.count("unreadable") >= 3
        assert "the file is from a newer version" in ask(server, "/run?id=c")[2].decode()


def test_the_help_names_what_it_listens_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert "127.0.0.1" in holdfast(capsys, "serve", "--help").out
    assert serve.name is not None


def test_a_folder_of_logs_that_is_a_link_shows_nothing(runs: Path) -> None:
    with served(runs) as server:
        run = server.shelf.entries()[0].dir.path
        away = runs.parent / "away"
        away.mkdir()
        (away / "passwd").write_text("secret")
        shutil.rmtree(run / "logs", ignore_errors=True)
        (run / "logs").symlink_to(away)
        (run / "workers").mkdir(exist_ok=True)
        (run / "workers" / "fifo").unlink(missing_ok=True)
        os.mkfifo(run / "workers" / "fifo")
        ident = next(
            quote(entry.id, safe="") for entry in server.shelf.entries() if entry.dir.path == run
        )
        assert b"passwd" not in ask(server, f"/run?id={ident}")[2]
        assert ask(server, f"/log?id={ident}&name=passwd")[0] == 404
        status, _, body = ask(server, f"/zip?id={ident}")
        assert status == 200
        names = zipfile.ZipFile(io.BytesIO(body)).namelist()
        assert names and not any("passwd" in name or "fifo" in name for name in names)


def test_a_zip_has_a_bound_and_is_not_made_for_other_sites(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(runs) as server:
        ident = quote(ids(server)[0], safe="")
        for site, mode in (("cross-site", "no-cors"), ("same-site", "navigate")):
            status, _, _ = ask(server, f"/zip?id={ident}", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode)
            assert status == 403
        told = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
        assert ask(server, f"/log?id={ident}&name=x", **told)[0] == 403
        assert ask(server, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
        assert ask(server, f"/zip?id={ident}", Sec_Fetch_Site="same-origin")[0] == 200
        monkeypatch.setattr("holdfast.serve.server.ZIP_BYTES", 10)
        assert ask(server, f"/zip?id={ident}")[0] == 413
        monkeypatch.undo()
        while server.shelf.zipping.acquire(blocking=False):
            pass
        assert ask(server, f"/zip?id={ident}")[0] == 503


def test_the_trend_has_a_row_per_cell_with_the_first_violation(runs: Path) -> None:
    with served(runs) as server:
        status, headers, body = ask(server, "/trend")
        text = body.decode()
        assert status == 200 and headers["content-security-policy"] == POLICY
        assert "<script" not in text and "alert(1)</script>" not in text
        rows = text[text.index("<tbody>") :].split("</tr>")[:-1]
        assert rows[0].startswith("<tbody>") and "majority / sim" in rows[0]
        broken = next(one for one in server.shelf.entries() if "majority" in one.id)
        assert f'href="/run?id={quote(broken.id, safe="")}"' in rows[0]
        assert 'href="/trend"' in ask(server, "/")[2].decode()
