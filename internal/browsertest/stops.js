// The elements of a page that a keyboard has to come to, in the order of the document, and the one
// with the focus.
(() => {
  if (window.stopsOfTheTest) return;
  const usable = "a[href], button, input, select, textarea, summary, [tabindex]";
  const isThere = e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({ visibilityProperty: true });
  const all = () => [...document.querySelectorAll(usable)].filter(isThere);
  const names = new Map();
  const name = e => {
    if (!names.has(e)) {
      const text = (e.getAttribute("aria-label") || e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
      names.set(e, `${names.size} ${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""} ${text}`);
    }
    return names.get(e);
  };
  const seen = e => {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth) return "outside of the window";
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return outlined || style.boxShadow !== "none" ? "seen" : "without a mark";
  };
  window.stopsOfTheTest = {
    all: () => all().map(name),
    now: () => {
      const e = document.activeElement;
      if (!e || e === document.body || e === document.documentElement) return { name: "", seen: "", scrolls: false };
      const scrolls = e.scrollHeight > e.clientHeight || e.scrollWidth > e.clientWidth;
      return { name: name(e), seen: seen(e), scrolls };
    },
    positive: () => document.querySelectorAll('[tabindex]:not([tabindex="0"]):not([tabindex="-1"])').length,
  };
})()
