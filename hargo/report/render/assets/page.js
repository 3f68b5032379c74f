"use strict";
// The table of predictions. Model text only ever becomes textContent, never markup.
(() => {
  const PAGE = 25;
  const data = JSON.parse(document.getElementById("predictions-data").textContent);
  const get = (id) => document.getElementById(id);
  const fields = { task: get("f-task"), run: get("f-run"), base: get("f-base"), outcome: get("f-outcome"), right: get("f-right"), text: get("f-text") };
  const list = get("b-answers"), status = get("b-status"), before = get("b-before"), after = get("b-after");
  let page = 0, matches = [];

  const element = (tag, text, style) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (style) node.className = style;
    return node;
  };

  const answer = (name, text, reward, right) => {
    const block = element("dl");
    const label = element("dt", name);
    if (reward !== undefined) {
      label.append(" · reward " + (Math.round(reward * 1000) / 1000) + " · ");
      label.append(element("span", right ? "right" : "wrong", right ? "right" : "wrong"));
    }
    block.append(label, text === "" ? element("dd", "(empty)", "empty") : element("dd", text));
    return block;
  };

  // the run that another is compared with: the first reference's of the same seed, or the one that was chosen
  const against = (run) => data.runs[fields.base.value === "" ? run.base : Number(fields.base.value)];
  const outcome = (run, base, row) => {
    const gap = run.r[row] - base.r[row];
    return Math.abs(gap) <= data.tie ? "tied" : gap > 0 ? "won" : "lost";
  };

  const entry = ({ run, row }) => {
    const [id, , prompt, reference] = data.rows[row];
    const base = against(run);
    const node = element("article", undefined, "answer");
    const name = element("div", undefined, "id");
    name.append(element("b", id), run === base ? "" : outcome(run, base, row) + " against " + base.name);
    node.append(name, answer("Reference", reference));
    if (run !== base) node.append(answer(base.name, data.texts[base.t[row]], base.r[row], base.c[row] === "1"));
    node.append(answer(run.name, data.texts[run.t[row]], run.r[row], run.c[row] === "1"));
    const more = element("details");
    more.append(element("summary", "Prompt"), element("pre", prompt));
    node.append(more);
    return node;
  };

  const show = () => {
    const pages = Math.max(1, Math.ceil(matches.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    list.replaceChildren(...matches.slice(page * PAGE, (page + 1) * PAGE).map(entry));
    status.textContent = matches.length + " answers, page " + (page + 1) + " of " + pages;
    before.disabled = page === 0;
    after.disabled = page >= pages - 1;
  };

  const filter = () => {
    const run = data.runs[Number(fields.run.value)];
    const needle = fields.text.value.toLowerCase();
    const base = against(run);
    fields.outcome.disabled = run === base;
    matches = [];
    data.rows.forEach(([id, task, prompt, reference], row) => {
      if (fields.task.value !== "" && task !== Number(fields.task.value)) return;
      if (run !== base && fields.outcome.value && outcome(run, base, row) !== fields.outcome.value) return;
      if (fields.right.value && run.c[row] !== fields.right.value) return;
      if (needle && ![id, prompt, reference, data.texts[run.t[row]], data.texts[base.t[row]]].some((text) => text.toLowerCase().includes(needle))) return;
      matches.push({ run, row });
    });
    page = 0;
    show();
  };

  data.tasks.forEach((name, index) => fields.task.append(new Option(name, index)));
  data.runs.forEach((run, index) => {
    fields.run.append(new Option(run.name, index));
    fields.base.append(new Option(run.name, index));
  });
  fields.run.value = String(data.first);
  for (const field of Object.values(fields)) field.addEventListener("input", filter);
  const turn = (by) => { page += by; show(); get("predictions").scrollIntoView(); };
  before.addEventListener("click", () => turn(-1));
  after.addEventListener("click", () => turn(1));
  get("b-all").hidden = false;
  filter();
})();
