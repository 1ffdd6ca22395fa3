"use strict";
// Filters by topic, verdict and words, and the place that is shown. The fragment of the address holds both, so that a
// view can be shared: "#place", "#topic=...&verdict=..." or "#place&topic=...". A place that a filter hides clears it.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.getElementById("filters");
  const shown = form.querySelector("output");
  const reset = form.querySelector("button");
  const fields = ["topic", "verdict", "text"];
  const rows = new Map(all("tr[data-claim]").map((row) => [row.dataset.claim, row]));
  const broken = new Map(all("tr[data-broken]").map((row) => [row.dataset.broken, row]));
  const links = new Map(all("nav li[data-study]").map((item) => [item.dataset.study, item]));
  const studies = all("section.study").map((section) => {
    const words = all(":scope > .topic, :scope > h3, :scope > .question, :scope > .source, :scope > .warning", section);
    const about = words.map((e) => e.textContent).join(" ").toLowerCase();
    const claims = all("article.claim", section).map((article) => ({
      article,
      row: rows.get(article.id),
      verdict: article.dataset.verdict,
      text: `${about} ${article.textContent}`.toLowerCase(),
    }));
    const link = links.get(section.id), row = broken.get(section.id);
    return { section, claims, about, link, row, topic: section.dataset.topic };
  });
  const groups = all("details.topic-verdicts");
  const total = studies.reduce((sum, study) => sum + study.claims.length, 0);

  const state = () => Object.fromEntries(fields.map((name) => [name, form.elements[name].value.trim()]));
  const active = () => Object.values(state()).some(Boolean);
  const of = (count, whole, one, many) => `${count === whole ? "all" : `${count} of`} ${whole} ${whole === 1 ? one : many}`;

  function apply() {
    const { topic, verdict, text } = state();
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    const says = (words) => wanted.every((word) => words.includes(word));
    let studiesShown = 0, claimsShown = 0;
    for (const study of studies) {
      const here = !topic || study.topic === topic;
      let any = here && !verdict && says(study.about);
      for (const claim of study.claims) {
        const right = !verdict || claim.verdict === verdict;
        const visible = here && right && says(claim.text);
        claim.article.hidden = claim.row.hidden = !visible;
        any ||= visible;
        claimsShown += visible;
      }
      study.section.hidden = !any;
      study.link.hidden = !any;
      if (study.row) study.row.hidden = !any;
      studiesShown += any;
    }
    for (const group of groups) {
      group.hidden = !group.querySelector("tbody tr:not([hidden])");
      if (active()) group.open = true;
    }
    for (const head of all(".topic-head")) {
      head.hidden = !studies.some((study) => study.topic === head.dataset.topic && !study.section.hidden);
    }
    for (const group of all("nav div[data-topic]")) group.hidden = !group.querySelector("li:not([hidden])");
    shown.textContent = `${of(studiesShown, studies.length, "study", "studies")}, ${of(claimsShown, total, "claim", "claims")} shown`;
    reset.disabled = !active();
    document.body.classList.toggle("filtered", active());
  }

  const query = () => new URLSearchParams(Object.entries(state()).filter(([, value]) => value)).toString();
  const address = (place) => {
    const fragment = [place, query()].filter(Boolean).join("&");
    return fragment ? `#${fragment}` : location.href.split("#")[0];
  };
  const remember = (place = "") => history.replaceState(null, "", address(place));

  function clear() {
    for (const name of fields) form.elements[name].value = "";
    apply();
  }

  const find = (place) => {
    try { return place ? document.getElementById(decodeURIComponent(place)) : null; } catch { return null; }
  };

  // Bring an element to the top. What lies above gets its true height only when it is drawn, so look again until
  // nothing moves any more; whoever scrolls meanwhile has the last word.
  let turn = 0;
  function scrollTo(target) {
    const mine = ++turn;
    let before = NaN, still = 0, left = 120;
    const step = () => {
      if (mine !== turn) return;
      target.scrollIntoView({ behavior: "instant" });
      const now = target.getBoundingClientRect().top + 1e6 * Math.round(scrollY);
      still = Math.abs(now - before) < 1 ? still + 1 : 0;
      before = now;
      if (still < 4 && left--) requestAnimationFrame(step);
    };
    step();
  }
  for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(kind, () => { turn++; }, { passive: true });

  function show(target) {
    for (const e of all(".claim.here")) e.classList.remove("here");
    target.classList.add("here");
    const group = target.closest("details");
    if (group) group.open = true;
    scrollTo(target);
  }

  // The fragment of the address, taken as the place to show and the filters.
  function follow() {
    const fragment = location.hash.slice(1);
    const place = fragment.split("&")[0].includes("=") ? "" : fragment.split("&")[0];
    const asked = new URLSearchParams(fragment.slice(place.length));
    const target = find(place);
    for (const name of fields) form.elements[name].value = asked.get(name) ?? "";
    for (const select of all("select", form)) if (select.selectedIndex < 0) select.value = "";
    apply();
    if (target?.closest("[hidden]")) { clear(); remember(place); }
    if (target) show(target);
    else if (active()) scrollTo(document.querySelector(".frame"));
  }

  form.addEventListener("input", () => { apply(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => { event.preventDefault(); clear(); remember(); form.elements.text.focus(); });
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const place = link.hash.slice(1);
    const target = place.includes("=") ? null : find(place);
    if (active() && target && !target.closest("[hidden]")) {
      // Within a filtered view the filters stay.
      event.preventDefault();
      if (location.hash !== address(place)) history.pushState(null, "", address(place));
      show(target);
    } else if (link.hash === location.hash) follow();
  });

  // On paper everything is open; afterwards as before.
  let closed = [];
  addEventListener("beforeprint", () => { closed = all("details:not([open])"); for (const e of closed) e.open = true; });
  addEventListener("afterprint", () => { for (const e of closed) e.open = false; });

  const wide = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const scrolls = target.scrollWidth > target.clientWidth + 1;
      target.closest("figure").classList.toggle("scrolls", scrolls);
      if (scrolls) target.tabIndex = 0; else target.removeAttribute("tabindex");
    }
  });
  for (const panels of all(".figure-panels")) wide.observe(panels);

  if (matchMedia("(max-width: 56rem)").matches) for (const e of all("nav details")) e.open = false;
  if (studies.length > 12) for (const group of groups) group.open = false;
  form.hidden = false;
  apply();
  follow();
})();
