// Copies a command; opens what the address names.

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  });
}

// A link into a closed part opens it: not every browser does by itself.
function reveal() {
  const named = /^#[\w-]+$/.test(location.hash) ? part(location.hash.slice(1)) : null;
  for (let one = named; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  if (named && named.closest("details")) named.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
reveal();
