"use strict";
// The live part of the page is fetched anew every two seconds while it is looked at; the search
// box stays as it is.
const live = document.getElementById("live");
const box = document.getElementById("host");
const pause = document.getElementById("pause");
let paused = false;
let asked = 0;
// renew shows the page of now. What isHeld says is asked when the page has come, too.
async function renew(isHeld = () => false) {
  const mine = ++asked;
  const url = new URL(location.href);
  if (box.value) url.searchParams.set("host", box.value); else url.searchParams.delete("host");
  try {
    const answer = await fetch(url, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("live");
    if (mine !== asked || isHeld()) return;
    if (!answer.ok || !next) throw new Error(answer.statusText);
    live.replaceChildren(...next.childNodes);
    history.replaceState(null, "", url);
    document.getElementById("state").textContent = "";
  } catch (err) {
    if (mine === asked) document.getElementById("state").textContent = "The crawler doesn't respond. The page shows its last state.";
  }
}
box.addEventListener("input", () => renew());
box.form.addEventListener("submit", (event) => { event.preventDefault(); renew(); });
document.getElementById("search").hidden = true; // the box searches by itself
pause.hidden = false;
pause.addEventListener("click", () => { paused = !paused; pause.textContent = paused ? "Resume updates" : "Pause updates"; if (!paused) renew(); });
// New text would take the place of text that is being selected for a copy.
const selecting = () => !getSelection().isCollapsed && live.contains(getSelection().anchorNode);
const isHeld = () => paused || document.hidden || selecting();
setInterval(() => { if (!isHeld()) renew(isHeld); }, 2000);
