"use strict";
// Filters by topic, verdict and words. Their state is the fragment of the address when it holds a "=", so that a
// filtered view can be shared; any other fragment is a link to a study or claim, which clears what hides it.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.getElementById("filters");
  const shown = form.querySelector("output");
  const reset = form.querySelector("button");
  const fields = ["topic", "verdict", "text"];
  const rows = new Map(all("tr[data-claim]").map((row) => [row.dataset.claim, row]));
  const links = new Map(all("nav li[data-study]").map((item) => [item.dataset.study, item]));
  const studies = all("section.study").map((section) => {
    const words = all(":scope > .topic, :scope > h2, :scope > .question, :scope > .source", section);
    const about = words.map((e) => e.textContent).join(" ").toLowerCase();
    const claims = all("article.claim", section).map((article) => ({
      article,
      row: rows.get(article.id),
      verdict: article.dataset.verdict,
      differs: article.dataset.differs === "yes",
      text: `${about} ${article.textContent}`.toLowerCase(),
    }));
    return { section, claims, about, link: links.get(section.id), topic: section.dataset.topic };
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
        const right = !verdict || (verdict === "differs" ? claim.differs : claim.verdict === verdict);
        const visible = here && right && says(claim.text);
        claim.article.hidden = claim.row.hidden = !visible;
        any ||= visible;
        claimsShown += visible;
      }
      study.section.hidden = !any;
      study.link.hidden = !any;
      studiesShown += any;
    }
    for (const group of groups) {
      group.hidden = !group.querySelector("tbody tr:not([hidden])");
      if (active()) group.open = true;
    }
    for (const group of all("nav div[data-topic]")) group.hidden = !group.querySelector("li:not([hidden])");
    shown.textContent = `${of(studiesShown, studies.length, "study", "studies")}, ${of(claimsShown, total, "claim", "claims")} shown`;
    reset.disabled = !active();
    document.body.classList.toggle("filtered", active());
  }

  function remember() {
    const query = new URLSearchParams(Object.entries(state()).filter(([, value]) => value)).toString();
    history.replaceState(null, "", query ? `#${query}` : location.href.split("#")[0]);
  }

  function clear() {
    for (const name of fields) form.elements[name].value = "";
    apply();
  }

  // The fragment of the address, taken as filters or as the place to show.
  function follow() {
    const fragment = location.hash.slice(1);
    if (fragment.includes("=")) {
      const query = new URLSearchParams(fragment);
      for (const name of fields) form.elements[name].value = query.get(name) ?? "";
      for (const select of all("select", form)) if (select.selectedIndex < 0) select.value = "";
      apply();
      document.querySelector(".frame").scrollIntoView();
      return;
    }
    let target = null;
    try { target = document.getElementById(decodeURIComponent(fragment)); } catch { return; }
    if (!target) return;
    if (target.closest("[hidden]")) clear();
    const group = target.closest("details");
    if (group) group.open = true;
    target.scrollIntoView();
  }

  form.addEventListener("input", () => { apply(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => { event.preventDefault(); clear(); remember(); form.elements.text.focus(); });
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    // A link to where the address already points changes nothing by itself, but what it points to may be hidden.
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
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
