"""Executes a campaign, shows its progress and writes its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.campaigns import runner
from holdfast.catalogue import VIRTUAL_TIME, user_system
from holdfast.harness.campaigns import journal
from holdfast.harness.campaigns.results import Result, failed
from holdfast.harness.campaigns.spec import CampaignSpec, Job
from holdfast.harness.campaigns.stopping import Decided, Lacking
from holdfast.harness.campaigns.summary import Summary, first_failure, summary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.runs import directory
from holdfast.harness.runs.version import VERSION
from holdfast.planning import fingerprints, prepare
from holdfast.planning.resolve import on_this_machine
from holdfast.reports.many import matrix_pages
from holdfast.reports.many.campaign import index
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.page_frame import write
from holdfast.reports.many.worst_first import failures
from holdfast.reports.text.formatting import count, plain
from holdfast.reports.text.progress import Progress


def check(campaign: CampaignSpec) -> None:
    """UsageError with everything that prevents a run of a cell from being prepared."""
    problems: list[str] = []
    for cell in campaign.cells:
        try:
            on_this_machine(cell.plan, "campaigns")
            prepare.complete(cell.plan)
        except UsageError as error:
            problems += [f"{cell.says}: {problem}" for problem in error.problems]
    if problems:
        raise UsageError(*dict.fromkeys(problems))


def version(campaign: CampaignSpec) -> str:
    """Version of Holdfast and hash of the users' files: with another one, runs are repeated."""
    systems = user_system.fingerprint(cell.plan.system for cell in campaign.cells)
    others = fingerprints.own_code(cell.plan for cell in campaign.cells)
    return f"{VERSION} {systems} {others}".rstrip()


def carry_out(
    campaign: CampaignSpec, jobs: Sequence[Job], folder: Path, processes: int, scheduler: str
) -> Summary:
    """Execute the remaining runs and write the pages; returns the summary of all runs."""
    further = list(campaign.further_jobs(version(campaign)))
    path = folder / runner.JOURNAL
    with journal.Journal(path) as open_journal:
        keys = [job.key for job in (*jobs, *further)]
        planned = {"schema": runner.PLANNED_SCHEMA, "keys": keys}
        directory.write_json(folder / runner.PLANNED, planned)
        before = journal.done(path)
        done = {key: one for key, one in before.items() if one.exit_code != 4}
        runner.clear(folder)
        known = Known(campaign, (*jobs, *further))
        known.add(done[key] for key in keys if key in done)
        left = _within(campaign, known, [job for job in jobs if job.key not in done])
        shown = Shown(campaign.name, len(jobs), [done[job.key] for job in jobs if job.key in done])
        shown.start(campaign.name, folder, len(left))
        enough = runner.deadline(campaign.time_ns)

        def execute(batch: Sequence[Job]) -> None:
            for found in runner.carry_out(
                batch, folder, processes, scheduler, enough, known.decided
            ):
                open_journal.add(found)
                known.add(found)
                shown.add(found)

        try:
            execute(left)
            if not known.stopped(jobs):
                for batch in _rounds(campaign, known, further, processes):
                    if enough():
                        break
                    shown.more(len(batch))
                    execute(batch)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"interrupted: {shown.finished()} runs are kept in {folder}; the same command"
                " carries out the rest"
            ) from stop
        finally:
            shown.close()
            told = _finish(campaign, jobs, further, folder, known.decided)
    return told


class Known:
    """What the finished runs of a campaign say about its cells."""

    def __init__(self, campaign: CampaignSpec, jobs: Sequence[Job]) -> None:
        self._cell_of = {job.key: job.cell for job in jobs}
        self._done = set[str]()
        self.decided = Decided(cell.stop_below for cell in campaign.cells)
        self.lacking = Lacking(len(campaign.cells))

    def add(self, results: Iterable[Result]) -> None:
        """Count finished runs."""
        for result in results:
            self._done.add(result.key)
            self.decided.add(self._cell_of[result.key], result)
            self.lacking.add(self._cell_of[result.key], result)

    def __len__(self) -> int:
        return len(self._done)

    def __contains__(self, job: Job) -> bool:
        return job.key in self._done

    def stopped(self, jobs: Sequence[Job]) -> bool:
        """Whether the campaign ended before its planned runs did, by its budget."""
        return any(job not in self and not self.decided(job.cell) for job in jobs)


def _within(campaign: CampaignSpec, known: Known, jobs: Sequence[Job]) -> Sequence[Job]:
    """As many of these runs as the budget allows."""
    return jobs[: max(0, campaign.runs - len(known))] if campaign.runs else jobs


def _rounds(
    campaign: CampaignSpec, known: Known, further: Sequence[Job], processes: int
) -> Iterator[Sequence[Job]]:
    """Further runs, a few of each cell that lacks opportunities by then, until none does."""
    left = [job for job in further if job not in known]
    while True:
        left = [job for job in left if job not in known and known.lacking(job.cell)]
        cells = {job.cell for job in left}
        batch = _within(campaign, known, left[: max(len(cells), processes)])
        if not batch:
            return
        yield batch
        keys = {job.key for job in batch}
        left = [job for job in left if job.key not in keys]


def _finish(
    campaign: CampaignSpec,
    jobs: Sequence[Job],
    further: Sequence[Job],
    folder: Path,
    decided: Decided,
) -> Summary:
    """campaign.json, index.html and matrix.html from the journal."""
    noted = journal.done(folder / runner.JOURNAL)
    every = (*jobs, *further)
    found = [noted[job.key] for job in every if job.key in noted]
    seen = {job.cell for job in every if job.key in noted}
    not_run = [cell.says for n, cell in enumerate(campaign.cells) if n not in seen]
    needed = sum(job.key in noted or not decided(job.cell) for job in jobs)
    needed += sum(job.key in noted for job in further)
    told = summary(campaign.name, needed, found, not_run)
    directory.write_json(folder / "campaign.json", told)
    index(folder, told, VIRTUAL_TIME)
    write(folder / "matrix.html", matrix_pages.page(matrix(found, VIRTUAL_TIME), folder))
    return told


def counts(done: Sequence[Result], of: int) -> str:
    """Progress of a campaign as text. A run that could not be executed kept no promise."""
    lost = sum(map(failed, done))
    says = f"{len(done)} of {of} runs"
    if lost == len(done) > 0:
        return f"{says}, none could be executed"
    broken = sum(result.exit_code == 1 for result in done)
    says += f", {broken} broke a promise"
    return f"{says}, {lost} could not be executed" if lost else says


class Shown:
    """Progress of a campaign; each kind of violation is printed once, when it is first seen."""

    def __init__(self, name: str, of: int, done: Sequence[Result]) -> None:
        self._of = of
        self._done = list(done)
        self._kinds = {failure.title for failure in failures(self._done)}
        self._failed = first_failure(self._done) is not None
        self._far = Progress(plain(name, 60), "runs", of, violations=0)

    def start(self, name: str, folder: Path, left: int) -> None:
        """Print what will be run."""
        earlier = f", {len(self._done)} already done" if self._done else ""
        self._far.say(f"campaign {name}: {count(left, 'run')} to execute{earlier}; in {folder}")
        self._update()

    def more(self, runs: int) -> None:
        """Add further runs to those that are planned."""
        self._of += runs

    def add(self, found: Sequence[Result]) -> None:
        """Add finished runs."""
        self._done += found
        if not self._failed:
            self._tell_failure(found)
        else:
            self._tell_others(found)
        self._update(found)

    def finished(self) -> str:
        """The number of finished runs, of all."""
        return f"{len(self._done)} of {self._of}"

    def _update(self, found: Sequence[Result] = ()) -> None:
        lost = sum(map(failed, self._done))
        last = f"last: {plain(found[-1].cell, 80)}, seed {found[-1].seed}" if found else None
        note = f"{lost} could not be executed" if lost else last
        broken = sum(result.exit_code == 1 for result in self._done)
        self._far.update(len(self._done), total=self._of, violations=broken, note=note)

    def _tell_failure(self, found: Sequence[Result]) -> None:
        failure = first_failure(found)
        if failure is None:
            return
        self._failed = True
        self._kinds |= {one.title for one in failures(found)}
        where = f"{failure['cell']}, seed {failure['seed']}"
        self._say(f"  first failure: {where}: {failure['sentence']}")
        for again in failure["commands"]:
            self._say(f"    again: {again}")

    def _tell_others(self, found: Sequence[Result]) -> None:
        for one in failures(found):
            if one.promised and one.title not in self._kinds:
                self._kinds.add(one.title)
                where = f"{one.first.cell}, seed {one.first.seed}"
                self._say(f"  new {one.word}: {one.title} in {where}: {one.sentence}")

    def _say(self, line: str) -> None:
        self._far.say(plain(line, 2000))

    def close(self) -> None:
        """Restore the terminal."""
        self._far.close()
