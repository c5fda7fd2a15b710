"use strict";
// Tables that sort, and the filters of runs: chips of levels, a search, differences only.
(() => {
  const { root } = trainload;
  const list = (selector) => [...document.querySelectorAll(selector)];

  function sortTable(button) {
    const column = Number(button.dataset.sort);
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const numbers = [...body.rows].some((row) => row.cells[column].dataset.v !== undefined);
    const first = numbers && column ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    head.parentElement.querySelectorAll("th").forEach((th) => th.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const keyed = [...body.rows].map((row) => {
      const cell = row.cells[column];
      return [numbers ? Number(cell.dataset.v ?? NaN) : cell.textContent, row];
    });
    keyed.sort(([a], [b]) => {
      if (!numbers) return sign * a.localeCompare(b, "en", { numeric: true });
      // What is missing stands last, whichever way is sorted.
      return Number.isNaN(a) || Number.isNaN(b)
        ? Number.isNaN(a) - Number.isNaN(b)
        : sign * (a - b);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-sort]");
    if (button) sortTable(button);
  });
  list(".filters, .controls").forEach((form) => {
    form.addEventListener("submit", (event) => event.preventDefault());
  });

  const search = document.getElementById("search");
  const chips = list("input[data-factor]");
  const runRows = list("tr[data-run]");
  const otherRows = list("tr[data-levels]:not([data-run])");
  const shown = new Set(runRows.map((row) => Number(row.dataset.run)));
  trainload.shownRuns = shown;

  // Of a factor without a chosen chip every level is shown; -2 marks a row to which it is nothing.
  function matches(row, wanted) {
    const levels = row.dataset.levels ? row.dataset.levels.split(" ").map(Number) : [];
    return [...wanted].every(([factor, set]) => levels[factor] === -2 || set.has(levels[factor]));
  }

  function filter() {
    const wanted = new Map();
    chips.filter((chip) => chip.checked).forEach((chip) => {
      const factor = Number(chip.dataset.factor);
      if (!wanted.has(factor)) wanted.set(factor, new Set());
      wanted.get(factor).add(Number(chip.dataset.level));
    });
    const words = search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
    shown.clear();
    runRows.forEach((row) => {
      const text = row.textContent.toLowerCase() + " " + (row.cells[0].title || "").toLowerCase();
      row.hidden = !(matches(row, wanted) && words.every((word) => text.includes(word)));
      if (!row.hidden) shown.add(Number(row.dataset.run));
    });
    otherRows.forEach((row) => { row.hidden = !matches(row, wanted); });
    const status = document.getElementById("shown");
    if (status) status.textContent = `${shown.size} of ${runRows.length} runs shown`;
    document.dispatchEvent(new Event("runs-shown"));
  }

  const differences = document.getElementById("differences");
  const settingSearch = document.getElementById("setting-search");
  function filterSettings() {
    const word = settingSearch.value.toLowerCase();
    list("#configuration-table tbody tr").forEach((row) => {
      const same = differences.checked && row.classList.contains("same");
      row.hidden = same || !row.cells[0].textContent.toLowerCase().includes(word);
    });
  }

  let waiting = 0;
  if (search) {
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 120);
    });
    chips.forEach((chip) => chip.addEventListener("change", filter));
    document.getElementById("clear").addEventListener("click", () => {
      chips.forEach((chip) => { chip.checked = false; });
      search.value = "";
      filter();
    });
    // A reload may restore controls from before.
    chips.forEach((chip) => { chip.checked = false; });
    search.value = "";
    filter();
  }
  if (differences) {
    differences.checked = differences.defaultChecked;
    differences.addEventListener("change", filterSettings);
    settingSearch.addEventListener("input", filterSettings);
    filterSettings();
  }
  root.dataset.tables = "yes";
})();
