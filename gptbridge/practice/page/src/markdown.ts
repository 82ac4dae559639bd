// How an answer's Markdown becomes the page's elements. Raw HTML in an answer is text; what it says can never become markup.
import MarkdownIt from "markdown-it";
import { copyFrom, h, icon } from "./dom";
import { isSecond } from "./generation";
import { t } from "./strings";

type Reference = { matched_text?: string; type?: string; invalid?: boolean; alt?: string; items?: { url?: string; title?: string; attribution?: string }[] };
// What a rendering carries along, beside what markdown-it itself keeps there.
interface Context { cites: Reference[]; starts: number[] }
const contextOf = (env: unknown): Context => env as Context;

const escape = (text: string): string => text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]!);
const START = "\ue200", END = "\ue201", SPLIT = "\ue202";

/** The address with the mark that the site puts on links that lead away. */
function marked(address: string): string {
  if (!/^https?:/i.test(address)) return address;
  try {
    const url = new URL(address);
    if (url.origin !== location.origin && !url.searchParams.has("utm_source")) url.searchParams.set("utm_source", "chatgpt.com");
    return url.href;
  } catch {
    return address;
  }
}

const renderer = new MarkdownIt({ html: false, linkify: true, breaks: false });
// Without a scheme a name such as "notes.md" would become a link.
renderer.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

// Math stays as it is written: \( ... \) and \[ ... \] are no escapes here.
renderer.inline.ruler.before("escape", "math", (state, silent) => {
  const found = /^\\([([])[\s\S]*?\\([)\]])/.exec(state.src.slice(state.pos, state.pos + 4000));
  if (!found || (found[1] === "(") !== (found[2] === ")")) return false;
  if (!silent) {
    const token = state.push("text_special", "", 0);
    Object.assign(token, { content: found[0], markup: found[0], info: "escape" });
  }
  state.pos += found[0].length;
  return true;
});

// Private-use spans: an entity stands for its name, a citation becomes a pill or nothing, marks around a phrase vanish.
renderer.inline.ruler.before("text", "span", (state, silent) => {
  if (state.src[state.pos] !== START) return false;
  const end = state.src.indexOf(END, state.pos);
  const whole = state.src.slice(state.pos, end < 0 ? undefined : end + 1);
  if (!silent) {
    const token = state.push("private_span", "", 0);
    token.content = whole;
  }
  state.pos += whole.length;
  return true;
});
// markdown-it's text rule runs over every character that it does not know to end a text.
renderer.inline.ruler.at("text", (state, silent) => {
  const found = /^[^\n!#$%&*+\-:<=>@[\\\]^_`{}~\ue200]+/.exec(state.src.slice(state.pos));
  if (!found) return false;
  if (!silent) state.pending += found[0];
  state.pos += found[0].length;
  return true;
});
renderer.renderer.rules.private_span = (tokens, index, _, env) => {
  const whole = tokens[index].content;
  const [kind, ...rest] = whole.slice(1, -1).split(SPLIT);
  if (kind === "entity") {
    try { return escape(String(JSON.parse(rest.join(SPLIT))[1] ?? "")); } catch { return ""; }
  }
  const reference = contextOf(env).cites.find((one) => one.matched_text === whole && one.invalid !== true);
  const item = reference?.items?.[0];
  if (!item?.url || !/^https?:/i.test(item.url)) return "";
  const more = reference!.items!.length > 1 ? ` +${reference!.items!.length - 1}` : "";
  const name = escape((item.attribution || item.title || new URL(item.url).hostname) + more);
  const [around, link] = isSecond() ? ["", ' data-testid="chatgpt-citation"'] : [' data-testid="webpage-citation-pill"', ""];
  return `<span${around} class="pill"><a${link} href="${escape(marked(item.url))}" target="_blank" rel="noopener"><span class="truncate">${name}</span></a></span>`;
};

renderer.renderer.rules.link_open = (tokens, index, options, _, self) => {
  const token = tokens[index];
  token.attrSet("href", marked(String(token.attrGet("href") ?? "")));
  token.attrSet("class", "decorated-link");
  token.attrSet("rel", "noopener");
  if (!String(token.attrGet("href")).startsWith("sandbox:")) token.attrSet("target", "_blank");
  return self.renderToken(tokens, index, options);
};
// An answer must not make the page load anything from elsewhere.
renderer.renderer.rules.image = (tokens, index) => {
  const address = String(tokens[index].attrGet("src") ?? "");
  const alt = escape(tokens[index].content);
  return address.startsWith("/") && !address.startsWith("//") ? `<img src="${escape(address)}" alt="${alt}">` : `<a class="decorated-link" rel="noopener" target="_blank" href="${escape(address)}">${alt || escape(address)}</a>`;
};
const fence: NonNullable<typeof renderer.renderer.rules.fence> = (tokens, index) => {
  const token = tokens[index];
  const language = token.info.trim().split(/\s+/)[0];
  const where = `${attribute(token.attrGet("data-start"), "data-start")}${attribute(token.attrGet("data-end"), "data-end")}`;
  const copy = `<button type="button" class="code-copy" data-copy="code">${escape(t("copyCode"))}</button>`;
  if (isSecond()) {
    const called = language ? language[0].toUpperCase() + language.slice(1) : "";
    return `<div class="code-block" data-markdown-copy="code-block"${where}><div class="code-head" data-markdown-copy="exclude"><div class="truncate">${escape(called)}</div>${copy}</div>`
      + `<div class="overflow-y-auto" dir="ltr"><code class="whitespace-pre! block">${escape(token.content)}</code></div></div>`;
  }
  return `<pre class="overflow-visible!"${where}><div class="contain-inline-size code-block"><div class="code-head"><span>${escape(language || "text")}</span>`
    + `${copy}</div><div class="overflow-y-auto" dir="ltr">`
    + `<code class="whitespace-pre!${language ? ` language-${escape(language)}` : ""}"><span>${escape(token.content)}</span></code></div></div></pre>`;
};
const attribute = (value: string | number | null, name: string): string => value === null ? "" : ` ${name}="${escape(String(value))}"`;
renderer.renderer.rules.code_inline = (tokens, index) => {
  const text = escape(tokens[index].content);
  return isSecond() ? `<span data-markdown-copy="inline-code">${text}</span>` : `<code>${text}</code>`;
};
renderer.renderer.rules.fence = fence;
renderer.renderer.rules.code_block = fence;
renderer.renderer.rules.table_open = (tokens, index) =>
  `<div class="_tableContainer_1rjym_1"><div class="_tableWrapper_1rjym_13 group"><button type="button" class="table-copy icon-btn" data-copy="table" aria-label="${escape(t("copyTable"))}"></button>`
  + `<table${attribute(tokens[index].attrGet("data-start"), "data-start")}${attribute(tokens[index].attrGet("data-end"), "data-end")} class="w-fit">`;
renderer.renderer.rules.table_close = () => "</table></div></div>";
for (const cell of ["th_open", "td_open"]) {
  renderer.renderer.rules[cell] = (tokens, index, options, _, self) => {
    const size = (tokens[index + 1]?.content.length ?? 0) > 40 ? "md" : "sm";
    tokens[index].attrSet("data-col-size", size);
    return self.renderToken(tokens, index, options);
  };
}
// Where each block stands in the source, as the site notes it.
renderer.core.ruler.push("places", (state) => {
  const { starts } = contextOf(state.env);
  const blocks = state.tokens.filter((token) => token.map && token.nesting >= 0 && token.type !== "inline");
  for (const token of blocks) {
    token.attrSet("data-start", String(starts[token.map![0]] ?? 0));
    token.attrSet("data-end", String((starts[token.map![1]] ?? state.src.length + 1) - 1));
  }
  const top = blocks.filter((token) => token.level === 0);
  top.at(-1)?.attrSet("data-is-last-node", "");
  if (top.length === 1) top[0].attrSet("data-is-only-node", "");
});

/** Puts the answer `source` into `target`. While it streams, a span that is not complete yet is left out. */
export function renderMarkdown(target: HTMLElement, source: string, references: Reference[], streaming: boolean): void {
  let text = source.replace(/[\ue203\ue204]/g, "");
  if (streaming && text.lastIndexOf(START) > text.lastIndexOf(END)) text = text.slice(0, text.lastIndexOf(START));
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  const holder = document.createElement("template");
  holder.innerHTML = renderer.render(text, { cites: references, starts } as never);
  for (const item of holder.content.querySelectorAll("li")) {
    const first = item.querySelector(":scope > p") ?? item;
    const box = /^\[([ xX])\]\s/.exec(first.firstChild?.nodeType === Node.TEXT_NODE ? first.firstChild.textContent! : "");
    if (!box) continue;
    first.firstChild!.textContent = first.firstChild!.textContent!.slice(box[0].length);
    first.prepend(h("input", { type: "checkbox", disabled: true, checked: box[1] !== " " }), " ");
    item.classList.add("task");
  }
  for (const button of holder.content.querySelectorAll<HTMLButtonElement>("button[data-copy]")) {
    const table = button.dataset.copy === "table";
    if (table) button.append(icon("copy", 16));
    else button.prepend(icon("copy", 14));
    button.addEventListener("click", () => {
      const root = button.parentElement!;
      const rows = [...root.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent).join("\t")).join("\n");
      void copyFrom(button, table ? rows : root.parentElement!.querySelector("code")?.textContent ?? "");
    });
  }
  target.replaceChildren(holder.content);
}
