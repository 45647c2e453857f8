// What the theme leaves out for readers with a keyboard or a screen reader. The theme adds wraps of
// tables and the copy buttons after the page has loaded, so each change of the page is looked at.
const SCROLLING = ".md-typeset__scrollwrap, .heat-map";

// A box that scrolls sideways can be reached with the Tab key; one that does not is no stop.
const focusable = (box) => {
  const scrolls = box.scrollWidth > box.clientWidth;
  if (scrolls) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
};

// The theme makes a navigation landmark of each copy button; a button is no landmark.
const mend = () => {
  for (const nav of document.querySelectorAll(".md-code__nav:not([role])")) nav.role = "none";
  for (const box of document.querySelectorAll(SCROLLING)) focusable(box);
};

let waiting = false;
const soon = () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    mend();
  });
};

mend();
new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", soon);
