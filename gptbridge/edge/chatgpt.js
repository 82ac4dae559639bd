// The page side of chatgpt.py: every selector and endpoint of the site stands here, with the date and source of its last sighting.
// Runs in the page's main world through the driver; the bearer token is used here and never leaves the page.
// Sources, all public: `oracle` is steipete/oracle with its history; `captures` are the pages kept in nuncaeslupus/ai-chat-exporter, `saved`
// the whole one of 2025-10-03 in jsh9/chatgpt-to-markdown, `thread` the one in jtsternberg/ChatGPT-Export; `exporters` are
// pionxzh/chatgpt-exporter, sho7650/obsidian-AI-exporter and their like; `notes` the DOM research notes of 2026-09-24 and those of chatgptcli of
// 2026-10-01; `extensions` other browser extensions that read this page; `aria` is the standard that such pages keep to.
// What both generations of the page have. The labels of controls are in the person's language: none of them is looked at.
const common = {
  // closed: never pressed. 2025-11 .. 2026-10: exporters, oracle, notes
  thought: '[data-testid^="cot-v5"], [data-testid*="thinking"], [data-testid*="reasoning"], [class~="group/activity-header"]',
  busy: '[role="progressbar"], [aria-busy="true"], [data-state="uploading"], [data-state="loading"], [data-state="pending"]',  // 2025-11 .. 2026-07, oracle
  broken: '[data-state="failed"], [data-state="error"], [class*="text-error"]',  // 2025-11 .. 2026-05, oracle
  input: 'input[type="file"]',  // several, hidden; one takes documents, the others images alone (2025-11 .. 2026-09, oracle, captures)
  login: '[data-testid="login-button"]',  // also on signed-in pages (2026-06-15, oracle #257): a hint, never a proof
  challenge: '#challenge-form, #challenge-running, iframe[src*="challenges.cloudflare.com"], input[id^="cf-chl-widget-"]',  // 2025-11 .. 2026-07, oracle
  dialog: '[role="dialog"], [role="alertdialog"]',  // 2025-12 .. 2026-08, oracle, aria
  toast: '[role="alert"], .toast-root, [data-testid="toast"]',  // 2025-10 .. 2026-10, saved, oracle, extensions
  noise: 'button, .sr-only, svg, .katex-html, [data-markdown-copy="exclude"], ' +
    '[data-testid="webpage-citation-pill"] img, [data-testid="chatgpt-citation"] img',  // 2025-10 .. 2026-10, saved, exporters, notes
  code: 'pre, [data-markdown-copy="code-block"]',  // without a pre since 2026-09, its language in a line of its own (notes)
  picker: ['button[data-testid="model-switcher-dropdown-button"]',  // header, 2024 .. 2026-05 (oracle)
    'button.__composer-pill[aria-haspopup="menu"]',  // composer, 2026-05 .. 2026-09 (oracle)
    'button[aria-haspopup="menu"][data-composer-navigation-target="reasoning"]'],  // 2026-09 .. 2026-10 (extensions)
  menu: '[role="menu"], [data-testid="composer-intelligence-picker-content"]',  // 2025-11; 2026-06 .. 2026-09 (oracle)
  option: '[role="menuitemradio"], [role="menuitem"][data-testid^="model-switcher-"]',  // 2025-11 .. 2026-09 (oracle)
  // Its radios are models, without a slug: 2026-08 (oracle), 2026-10 (extensions).
  models: '[data-testid="composer-model-picker-slider-advanced-view"], [data-model-picker-view="advanced"]',
  effortRow: '[data-model-picker-thinking-effort-row]',  // a model and what opens its efforts, 2026-05 (oracle)
  efforts: '[data-model-picker-thinking-effort-action="true"]',  // 2026-05 (oracle)
  more: '[data-model-picker-view-toggle="true"]',  // what shows the models instead of the slider, 2026-10 (extensions)
  // Its places in the order of the efforts: 2026-08 (oracle), 2026-10 (extensions).
  slider: '[data-model-reasoning-effort-slider] [role="slider"], [data-model-picker-power-slider] [role="slider"]',
  // One that is switched on (search, deep research ...), 2026-05 (oracle); a menu's is the model's.
  tool: 'form button[class~="__composer-pill"]:not([aria-haspopup])',
};
// Which of them must be there: on any page of somebody who is signed in, and where a conversation is open; those that help and can be done
// without; all others show only at times (a send control has its place only while there is text).
const always = ['editor', 'input'];
const inThread = ['turn', 'message', 'body', 'said'];
const useful = ['ready', 'place'];
// What tells them apart. A page that shows neither editor, or both, is neither: nothing can be typed there.
const generations = [{
  name: 1,
  editor: '#prompt-textarea.ProseMirror, #prompt-textarea[contenteditable="true"]',  // 2024-09 .. 2026-09, oracle, captures
  send: 'button[data-testid="send-button"]',  // 2023-11 .. 2026-09, oracle, captures; absent while the composer is empty
  stop: 'button[data-testid="stop-button"], button[data-testid="composer-stop-button"]',  // 2025-11 .. 2026-07, oracle
  ready: '[data-testid="blocking-initial-modals-done"]',  // 2025-10-03, saved
  turn: 'section[data-turn], article[data-turn], div[data-turn]',  // article until 2026-03-20, section since (exporters, captures)
  place: '[data-turn-id-container]',  // 2026-07 .. 2026-09 (captures, exporters), one for each turn, kept while it is not mounted; also list roots named *-root
  message: '[data-message-author-role][data-message-id]',  // 2023-11 .. 2026-09, oracle, captures
  said: '.whitespace-pre-wrap',  // a prompt's own text, 2024-06 .. 2026-09, captures
  body: '.markdown',  // 2023-11 .. 2026-09, oracle, captures
  failed: '[data-testid*="regenerate"], .text-token-text-error',  // 2025-11, oracle
  // 2025-12 .. 2026-07, oracle, thread
  chip: 'form [role="group"][aria-label][class*="file"], form [data-testid*="attachment"], form [data-testid*="file-chip"]',
  mode: 'button[role="radio"]',  // Chat first, then Work, 2026-07-12 (oracle #315)
}, {
  name: 2,
  editor: '[data-composer-markdown][contenteditable="true"][role="textbox"]',  // 2026-09-24 .. 2026-10-01, notes
  send: 'form button[type="submit"]',  // 2026-09-24, notes; type, not label
  // The square is the same in every language; in 2026-10 the test id was back in some builds (extensions).
  stop: 'form button[type="button"]:has(svg path[d^="M4.5 5.75"]), form button[data-testid="stop-button"]',
  running: '[data-talvt-turn-state="in_progress"]',  // 2026-10, extensions
  turn: '[data-turn-key]',  // a prompt and its answer, 2026-09-24, notes
  place: '[data-turn-key]',  // 2026-09-24, notes
  message: '[data-chatgpt-search-unit-key][data-chatgpt-search-message-ids]',  // key `<turn>:<number>:user|assistant`, 2026-09-24, notes
  said: '[data-user-message-bubble] .whitespace-pre-wrap',  // 2026-09-29, extensions
  rich: '[data-markdown-text-tone="user-message"]',  // a prompt with a block of code is shown as an answer is, 2026-09-29, extensions
  body: '[data-markdown-text-style="assistant-message"]',  // 2026-09-24, notes
  failed: '[role="alert"]',  // 2026-10, extensions
  chip: 'form [data-composer-attachments] [class~="group/composer-attachment"]',  // 2026-09-20 .. 2026-09-28, extensions
  mode: '[role="tab"]',  // Chat first, then Work, 2026-10, extensions
  chat: 'form[data-chatgpt-composer]',  // the editor's form, 2026-09-24, notes; that of Work mode has another name (2026-10, extensions)
}];
// Words of the page, in English alone: what says more where it speaks another language is its structure.
const locked = /(?:suspicious|unusual) activity[^]*(?:secure your account|regain access)/i;  // 2026-05-07, oracle
const challengeTitle = /^just a moment|^attention required.*cloudflare/i;  // 2025-11 .. 2026-07, oracle
const throttle = /^too many requests/i;  // a dialog's heading, 2026-03 .. 2026-08, exporters, oracle
const sessionPath = '/api/auth/session';  // 2022-12 .. 2026-10, oracle, exporters
const pieceLength = 2000;  // UTF-16 units of one paste
const shown = (node) => !!node && node.getClientRects().length > 0;
const editors = (selector) => Array.from(document.querySelectorAll(selector)).filter(shown);
const found = (hook) => !!hook && !!document.querySelector(hook);
const either = (name) => generations.map((one) => one[name]).filter(Boolean).join(', ');
// The generation whose editor is shown. Where none is, the one that more of the rest belongs to, so that what is missing can be named.
function generation() {
  const traits = (one) => Object.values(one).filter((hook) => typeof hook === 'string' && found(hook)).length;
  const shows = generations.filter((one) => editors(one.editor).length);
  const leads = (one) => generations.every((other) => other === one || traits(one) > traits(other));
  const likely = shows.length ? shows : generations.filter(leads);
  const neither = {...Object.fromEntries(generations.flatMap(Object.keys).map((name) => [name, either(name)])), name: 0};
  return likely.length === 1 ? likely[0] : neither;
}
const hooks = {...common, ...generation()};
const editorOf = () => { const all = editors(hooks.editor); return all.length === 1 ? all[0] : null; };
const roleOf = (node) => node.dataset.messageAuthorRole || (node.dataset.chatgptSearchUnitKey || '').split(':').pop();
// Of a reply in steps the last id is the reply itself.
const idOf = (node) => node.dataset.messageId || (node.dataset.chatgptSearchMessageIds || '').trim().split(/\s+/).pop();
// A composer's control: the one in the editor's own form, where it is the only one of its kind that is shown.
const controlOf = (selector) => {
  const form = editorOf() && editorOf().closest('form');
  const all = Array.from(document.querySelectorAll(selector)).filter((node) => shown(node) && !!form && node.closest('form') === form);
  return all.length === 1 ? all[0] : null;
};

// Where the page has no sign of its own: an editor that is alive bears ProseMirror's mark (prosemirror-view 1).
const isReady = (editor) => (hooks.ready ? found(hooks.ready) : !!editor && !!editor.pmViewDesc);

// Which of the page's modes is chosen, 0 being Chat; the switch stands in no form, menu, dialog or turn.
function modeOf() {
  const apart = `form, [role="menu"], ${hooks.dialog}, ${hooks.turn}`;
  const switches = Array.from(document.querySelectorAll(hooks.mode)).filter((node) => shown(node) && !node.closest(apart));
  return switches.findIndex((node) => ['aria-checked', 'aria-selected'].some((name) => node.getAttribute(name) === 'true') || node.dataset.state === 'on');
}

// The text of the editor: its top-level blocks joined by line feeds; a trailing break is the editor's own, any other is a line feed.
function textOf(editor) {
  const inside = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeName === 'BR') return node.classList.contains('ProseMirror-trailingBreak') ? '' : '\n';
    if (node.nodeType !== Node.ELEMENT_NODE || node.classList.contains('ProseMirror-widget')) return '';
    return Array.from(node.childNodes, inside).join('');
  };
  return Array.from(editor.children, inside).join('\n');
}

function focusEnd(editor) {
  editor.focus();
  const range = document.createRange();
  range.selectNodeContents(editor);
  range.collapse(false);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

// Chips, each once: a hook may match a tile and a part of it.
const chipsOf = () => Array.from(document.querySelectorAll(hooks.chip)).filter((node) => !node.parentElement.closest(hooks.chip));
const inputsOf = () => {
  const form = editorOf() && editorOf().closest('form');
  return Array.from(new Set([...(form ? form.querySelectorAll(hooks.input) : []), ...document.querySelectorAll(hooks.input)]));
};
const takesImagesOnly = (input) => /^\s*image\b/.test(input.accept) || input.hasAttribute('capture');
const sendable = () => {
  const send = controlOf(hooks.send);
  return !!send && !(send.disabled || send.getAttribute('aria-disabled') === 'true' || 'disabled' in send.dataset);
};
// What it says on the screen, for a person: words of two lines stay two words.
const worded = (node) => (node.innerText || node.textContent).replace(/\s+/g, ' ').trim();
// A switch of the picker: what it is called, whether it is chosen or switched off, and what the page says about that.
function switchOf(node) {
  const box = node.getBoundingClientRect();
  const own = Array.from(node.querySelectorAll('*')).filter((one) => !one.childElementCount).map((one) => one.textContent.trim());
  const said = (node.getAttribute('aria-describedby') || '').split(/\s+/).filter(Boolean).map((id) => document.getElementById(id));
  const {state, disabled} = node.dataset;
  return {
    element: node, at: [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)],
    labels: Array.from(new Set([node.textContent.trim(), ...own].filter(Boolean))).slice(0, 8).map((text) => text.slice(0, 80)),
    checked: ['aria-checked', 'aria-selected', 'aria-current'].some((name) => node.getAttribute(name) === 'true') || ['checked', 'selected', 'on'].includes(state),
    off: node.disabled === true || node.getAttribute('aria-disabled') === 'true' || state === 'disabled' || (disabled !== undefined && disabled !== 'false'),
    notice: said.filter(Boolean).map(worded).join(' ').slice(0, 200),
  };
}
const pickerOf = () => hooks.picker.map((one) => document.querySelector(one)).find(shown) || null;
const choiceOf = () => {
  const button = pickerOf();
  return button ? `${button.textContent.trim()}|${button.getAttribute('aria-label') || ''}` : '';
};
// Whether something lies over the editor: a dialog's backdrop swallows every click (2026-03 .. 2026-08), in whatever language it speaks.
const covered = () => {
  const editor = editorOf();
  if (!editor) return false;
  // A long text makes the editor taller than what shows of it: the form around it is what stands on the page.
  const composer = editor.closest('form') || editor;
  const box = composer.getBoundingClientRect();
  const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
  const hit = document.elementFromPoint(box.left + box.width / 2, (top + bottom) / 2);
  return !!hit && !composer.contains(hit);
};
// Titles and turns are people's words and the model's, whatever they say: what the page itself says stands apart from them.
const apart = (node) => !node.closest(`${either('turn')}, ${either('editor')}`);
const dialogs = () => Array.from(document.querySelectorAll(hooks.dialog)).filter((node) => shown(node) && apart(node));
const toasts = () => Array.from(document.querySelectorAll(hooks.toast)).filter((node) => shown(node) && apart(node)).map((node) => worded(node).slice(0, 200));
const headingOf = (dialog) => {
  const heading = document.getElementById(dialog.getAttribute('aria-labelledby') || '') || dialog.querySelector('h1, h2, h3, [role="heading"]');
  return worded(heading || dialog);
};
// What stands instead of the page: a page with an editor or a turn is the page itself, and its title is its conversation's.
function barred() {
  if (editors(either('editor')).length || found(either('turn')) || !document.body) return '';
  if (challengeTitle.test(document.title)) return 'challenge';
  const body = document.body.cloneNode(true);
  body.querySelectorAll('script, style, template, noscript, nav, aside, header, a').forEach((one) => one.remove());  // also what lists conversations
  return locked.test(body.textContent.slice(0, 5000)) ? 'locked' : '';
}

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

// What a block of code is written in: its class, or the one word in the line above it.
function languageOf(block, code) {
  const named = /language-([\w+#.-]+)/.exec(code.className);  // 2023 .. 2026-06, captures
  if (named) return named[1];
  const above = block.querySelector('[data-markdown-copy="exclude"] .truncate');  // 2026-09, notes
  return above && /^[\w+#.-]+$/.test(above.textContent.trim()) ? above.textContent.trim().toLowerCase() : '';
}

// A copy of an answer's markup without what the page adds to it: formulas as they were written, code as plain text in one element.
function cleaned(body) {
  const copy = body.cloneNode(true);
  for (const block of copy.querySelectorAll(hooks.code)) {
    if (block.parentElement.closest(hooks.code)) continue;  // 2026-07: an editor's pre inside the outer one
    const code = block.querySelector('code') || block;
    const language = languageOf(block, code);
    code.querySelectorAll('br').forEach((one) => one.replaceWith('\n'));
    const plain = document.createElement('code');
    if (language) plain.className = `language-${language}`;
    plain.textContent = code.textContent;
    const around = document.createElement('pre');
    around.append(plain);
    block.replaceWith(around);
  }
  for (const span of copy.querySelectorAll('[data-markdown-copy="inline-code"]')) {  // 2026-09-29, extensions
    const code = document.createElement('code');
    code.textContent = span.textContent;
    span.replaceWith(code);
  }
  for (const formula of copy.querySelectorAll('.katex')) {  // 2023 .. 2026-09, exporters
    const holder = formula.closest('[data-math-source]');  // 2026-09, extensions: without the annotation
    const annotation = formula.querySelector('annotation[encoding="application/x-tex"]');
    const source = holder ? holder.dataset.mathSource : annotation && annotation.textContent;
    // 2023 .. 2026-09, exporters, extensions
    const display = formula.closest('.katex-display, [data-math-display="true"]') || formula.querySelector('.katex-display');
    const [open, shut] = display ? ['\\[', '\\]'] : ['\\(', '\\)'];
    if (source) (holder || formula).replaceWith(`${open}${source}${shut}`);
  }
  copy.querySelectorAll(hooks.noise).forEach((one) => one.remove());
  return copy.innerHTML;
}

// Every place of a turn in order, with the messages that are mounted in it. `shown`: it holds something, if no message.
function placesOf() {
  const outermost = (list, selector) => list.filter((node) => !node.parentElement.closest(selector));
  let places = outermost(Array.from(document.querySelectorAll(hooks.place)).filter((node) => !/-root($|:)/.test(node.dataset.turnIdContainer)), hooks.place);
  if (!places.length) places = outermost(Array.from(document.querySelectorAll(hooks.turn)), hooks.turn);
  return places.map((place) => ({
    shown: place.childElementCount > 0, thought: !!place.querySelector(hooks.thought),
    messages: outermost(Array.from(place.querySelectorAll(hooks.message)), hooks.message).map((node) => ({
      id: idOf(node), role: roleOf(node),
      text: Array.from(node.querySelectorAll(hooks.said), (one) => one.textContent).join('\n\n'),
      html: Array.from(node.querySelectorAll([hooks.body, hooks.rich].filter(Boolean).join(', ')), cleaned).join('\n'),
    })),
  }));
}

async function sessionOf() {
  const reply = await fetch(sessionPath, {credentials: 'same-origin', cache: 'no-store'});
  const type = reply.headers.get('content-type') || '';
  if (!reply.ok || !type.includes('json')) return {status: reply.status, challenge: !type.includes('json'), body: null};
  return {status: reply.status, challenge: false, body: await reply.json()};
}

async function read(path) {
  const session = await sessionOf();
  const token = session.body && session.body.accessToken;
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const account = session.body && session.body.account && session.body.account.id;
  if (token && account) headers['Chatgpt-Account-Id'] = account;
  const reply = await fetch(path, {headers, credentials: 'same-origin', cache: 'no-store'});
  const type = reply.headers.get('content-type') || '';
  return {status: reply.status, json: type.includes('json'), retryAfter: reply.headers.get('retry-after'), text: await reply.text()};
}

const api = {
  state() {
    const editor = editorOf();
    const path = location.pathname;
    const named = /\/c\/([^/?#]+)/.exec(path);
    const users = Array.from(document.querySelectorAll(hooks.message)).filter((node) => roleOf(node) === 'user');
    return {
      path, named: named && decodeURIComponent(named[1]), title: document.title, loaded: document.readyState,
      editor: !!editor, text: editor ? textOf(editor) : null,
      chips: chipsOf().length, sendable: sendable(),
      ready: isReady(editor), strange: !editor && Array.from(document.querySelectorAll('textarea, [contenteditable="true"]')).some(shown),
      turns: document.querySelectorAll(hooks.turn).length,
      newest: users.length ? idOf(users[users.length - 1]) : null,
      generating: found(hooks.stop) || found(hooks.running), work: (!!editor && !!hooks.chat && !editor.closest(hooks.chat)) || modeOf() > 0,
      temporary: new URLSearchParams(location.search).get('temporary-chat') === 'true',
      login: shown(document.querySelector(hooks.login)),
      challenge: Array.from(document.querySelectorAll(hooks.challenge)).some(apart), barred: barred(),
      dialog: dialogs().map((node) => worded(node).slice(0, 400)), throttled: dialogs().some((node) => throttle.test(headingOf(node))),
      toast: toasts(), choice: choiceOf(), covered: covered(), tools: document.querySelectorAll(hooks.tool).length,
      heldBack: !!document.querySelector(hooks.send) && !sendable(),
    };
  },

  // The picker of model and effort as it stands: what opens it, and every switch in what is open of it.
  picker() {
    const menus = Array.from(document.querySelectorAll(hooks.menu)).filter(shown);
    const nodes = Array.from(new Set(menus.flatMap((menu) => Array.from(menu.querySelectorAll(hooks.option))))).filter(shown);
    const options = nodes.map((node) => {
      const slug = (/^model-switcher-(.+)$/.exec(node.dataset.testid || '') || [])[1] || null;
      const row = node.closest(hooks.effortRow);
      return {...switchOf(node), slug, kind: slug || node.closest(hooks.models) ? 'model' : 'effort', efforts: row && row.querySelector(hooks.efforts)};
    });
    const slider = Array.from(document.querySelectorAll(hooks.slider)).find(shown);
    const number = (name) => Number(slider.getAttribute(name));
    return {
      button: pickerOf(), more: Array.from(document.querySelectorAll(hooks.more)).find(shown) || null, options,
      slider: slider ? {...switchOf(slider), min: number('aria-valuemin'), max: number('aria-valuemax'), now: number('aria-valuenow')} : null,
      dialogs: dialogs().map((node) => worded(node).slice(0, 400)),
    };
  },

  focus(node) {
    const place = node.closest('[tabindex="0"]') || node;
    place.focus();
    return document.activeElement === place;
  },

  rendered() {
    const sections = document.querySelectorAll(hooks.turn);
    const last = sections.length ? sections[sections.length - 1] : null;
    return {state: api.state(), places: placesOf(), failed: !!last && !!last.querySelector(hooks.failed)};
  },

  // How often each hook is found now, and which are missing that must be there; read alone.
  hooks() {
    const {named, turns} = api.state();
    const known = Object.entries(hooks).filter(([, hook]) => typeof hook === 'string');
    const counts = Object.fromEntries(known.map(([name, hook]) => [name, document.querySelectorAll(hook).length]));
    const needed = [...always, ...(named && (turns || document.readyState === 'complete') ? inThread : [])];
    return {
      generation: hooks.name, found: counts, missing: needed.filter((name) => !counts[name] && !(name === 'said' && counts.rich)),
      lacking: useful.filter((name) => hooks[name] && !counts[name] && (named || name !== 'place')), selectors: Object.fromEntries(known),
      told: ['id', 'class', 'role', 'type', 'data-testid', 'data-state', 'data-turn', 'data-message-author-role', 'contenteditable',
        'aria-expanded', 'aria-checked', 'aria-disabled', 'aria-busy', 'aria-haspopup', 'aria-modal', 'aria-selected', 'disabled', 'hidden',
        'multiple', 'accept', 'data-conversation-role', 'data-composer-navigation-target', 'data-markdown-text-style',
        'data-talvt-turn-state'],  // a program's words, never a person's
      words: ['message', 'body', 'said', 'editor'].map(either),
    };
  },

  async session() {
    const {status, challenge, body} = await sessionOf();
    const user = body && body.user;
    return {status, challenge, user: user ? user.id : null, account: user && body.account ? body.account.id : null};
  },

  read,

  // A paste of one `p` per line inside a ProseMirror slice keeps blank lines, indents, tabs and trailing blanks, and takes
  // milliseconds where inserting text takes seconds (measured 2026-11). In pieces, each open at both ends and so joined to the one
  // before: a page that makes a file of a long paste never sees one, and takes no longer for 50 kB (measured 2026-11).
  paste(text) {
    const editor = editorOf();
    focusEnd(editor);
    for (let from = 0, to; from < text.length; from = to) {
      to = Math.min(from + pieceLength, text.length);
      if (to < text.length && /[\uD800-\uDBFF]/.test(text[to - 1])) to -= 1;  // not through a surrogate pair
      const piece = text.slice(from, to);
      const lines = piece.split('\n').map((line) => `<p>${escaped(line)}</p>`).join('');
      const data = new DataTransfer();
      data.setData('text/html', `<div data-pm-slice="1 1 []">${lines}</div>`);
      data.setData('text/plain', piece);
      editor.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));
    }
    return true;
  },

  insert(text) {
    focusEnd(editorOf());
    return document.execCommand('insertText', false, text);
  },

  // The input that takes files of any kind; one for images alone only where there is no other and all of them are.
  input(images, many) {
    const found = inputsOf().filter((input) => !input.disabled && (input.multiple || !many));
    const general = found.find((input) => !takesImagesOnly(input));
    return general || (images && found.find((input) => !input.hasAttribute('capture'))) || null;
  },

  files() {
    const chips = chipsOf();
    return {
      chips: chips.length, labels: chips.map((chip) => chip.getAttribute('aria-label') || (chip.querySelector('.truncate') || chip).textContent.trim().slice(0, 300)),
      inputs: inputsOf().reduce((count, input) => count + (input.files ? input.files.length : 0), 0),
      busy: chips.some((chip) => chip.matches(hooks.busy) || chip.querySelector(hooks.busy)),
      failed: chips.some((chip) => chip.matches(hooks.broken) || chip.querySelector(hooks.broken)),
      sendable: sendable(), notice: toasts()[0] || '',
    };
  },

  untype() {
    const editor = editorOf();
    if (!editor) return false;
    editor.focus();
    getSelection().selectAllChildren(editor);
    document.execCommand('delete');
    return true;
  },

  clear() {
    const editor = editorOf();
    if (!editor) return false;
    for (const chip of chipsOf()) Array.from(chip.querySelectorAll('button')).slice(-1).forEach((button) => button.click());  // localised
    inputsOf().forEach((input) => { input.value = ''; });
    return api.untype();
  },

  press() {
    return controlOf(hooks.send);
  },

  halt() {
    return controlOf(hooks.stop);
  },
};

const done = arguments[arguments.length - 1];
const [name, ...given] = Array.from(arguments).slice(0, -1);
Promise.resolve().then(() => api[name](...given)).then((value) => done({value}), (error) => done({error: String(error && error.name)}));
