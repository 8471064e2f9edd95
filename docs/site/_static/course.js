// A table that is wider than its place is scrolled by keyboard, too.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-content table")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
});
