// The page side of chatgpt.py: every selector and endpoint of the site stands here, with the date and source of its last sighting.
// Runs in the page's main world through the driver; the bearer token is used here and never leaves the page.
const hooks = {
  editor: ['#prompt-textarea.ProseMirror', '#prompt-textarea[contenteditable="true"]'],  // 2024-09 .. 2026-09, captures of 2026-07
  send: 'button[data-testid="send-button"]',  // 2023-11 .. 2026-09; absent while the composer is empty
  stop: 'button[data-testid="stop-button"], button[data-testid="composer-stop-button"]',  // 2025-11 .. 2026-07
  ready: '[data-testid="blocking-initial-modals-done"]',  // 2025-10-03 capture
  turn: 'section[data-turn], article[data-turn], div[data-turn]',  // article until 2026-03-20, section since
  message: '[data-message-author-role][data-message-id]',  // since 2023-11
  place: '[data-turn-id-container]',  // 2026-09, one for each turn, kept while the turn is not mounted; also list roots named *-root
  body: '.markdown',  // 2023-11 .. 2026-09
  said: '.whitespace-pre-wrap',  // a prompt's own text, 2024-06 .. 2026-09
  thought: '[data-testid^="cot-v5"], [data-testid*="thinking"], [data-testid*="reasoning"]',  // 2025-11 .. 2026-09; closed: never pressed
  failed: '[data-testid*="regenerate"], .text-token-text-error',  // 2025-11
  noise: 'button, .sr-only, svg, .katex-html, [data-testid="webpage-citation-pill"] img',
  chip: 'form [role="group"][aria-label][class*="file"], form [data-testid*="attachment"], form [data-testid*="file-chip"]',
  busy: '[role="progressbar"], [aria-busy="true"], [data-state="uploading"], [data-state="loading"], [data-state="pending"]',  // 2025-11 .. 2026-07
  broken: '[data-state="failed"], [data-state="error"], [class*="text-error"]',
  input: 'input[type="file"]',  // several, hidden; the composer's own takes documents, others images alone (2025-11 .. 2026-07)
  unchip: 'form button[aria-label^="Remove"], form [role="group"] button[data-testid*="remove"]',
  login: '[data-testid="login-button"]',  // also seen on signed-in pages (2026-06-15): a hint, never a proof
  challenge: '#challenge-form, #challenge-running, iframe[src*="challenges.cloudflare.com"], input[id^="cf-chl-widget-"]',  // 2025-11 .. 2026-07
  dialog: '[role="dialog"], [role="alertdialog"]',
  toast: '[role="alert"], .toast-root',
  radio: 'button[role="radio"]',  // Chat/Work, 2026-07-12
};
// Which of them must be there: on any page of somebody who is signed in, and where a conversation is open; those that help and can be done
// without; all others show only at times (a send control has its place only while there is text).
const always = ['editor', 'input'];
const inThread = ['turn', 'message', 'body', 'said'];
const useful = ['ready', 'place'];
const pieceLength = 2000;  // UTF-16 units of one paste
const challengeTitle = /^just a moment|attention required/i;
const first = (list, root = document) => list.map((one) => root.querySelector(one)).find((found) => found) || null;
const shown = (node) => !!node && node.getClientRects().length > 0;
const editorOf = () => first(hooks.editor);

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
  const send = document.querySelector(hooks.send);
  return !!send && !(send.disabled || send.getAttribute('aria-disabled') === 'true' || 'disabled' in send.dataset);
};
const toasts = () => Array.from(document.querySelectorAll(hooks.toast)).filter(shown).map((node) => node.textContent.trim().slice(0, 200));

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

// A copy of an answer's markup without what the page adds to it: formulas as they were written, code as plain text in one element.
function cleaned(body) {
  const copy = body.cloneNode(true);
  for (const pre of copy.querySelectorAll('pre')) {
    if (pre.parentElement.closest('pre')) continue;  // 2026-07: an editor's pre inside the outer one
    const code = pre.querySelector('code') || pre;
    const language = /language-([\w+#.-]+)/.exec(code.className);
    code.querySelectorAll('br').forEach((one) => one.replaceWith('\n'));
    const plain = document.createElement('code');
    if (language) plain.className = language[0];
    plain.textContent = code.textContent;
    pre.replaceChildren(plain);
  }
  for (const formula of copy.querySelectorAll('.katex')) {
    const source = formula.querySelector('annotation[encoding="application/x-tex"]');
    const [open, shut] = formula.closest('.katex-display') ? ['\\[', '\\]'] : ['\\(', '\\)'];
    if (source) formula.replaceWith(`${open}${source.textContent}${shut}`);
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
      id: node.dataset.messageId, role: node.dataset.messageAuthorRole,
      text: Array.from(node.querySelectorAll(hooks.said), (one) => one.textContent).join('\n\n'),
      html: Array.from(node.querySelectorAll(hooks.body), cleaned).join('\n'),
    })),
  }));
}

async function sessionOf() {
  const reply = await fetch('/api/auth/session', {credentials: 'same-origin', cache: 'no-store'});
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
    const users = Array.from(document.querySelectorAll(hooks.message)).filter((node) => node.dataset.messageAuthorRole === 'user');
    const radios = Array.from(document.querySelectorAll(hooks.radio)).filter((node) => /^(chat|work)$/i.test(node.textContent.trim()));
    const chosen = radios.find((node) => node.getAttribute('aria-checked') === 'true' || node.dataset.state === 'on');
    return {
      path, named: named && decodeURIComponent(named[1]), title: document.title, loaded: document.readyState,
      editor: !!editor, text: editor ? textOf(editor) : null,
      chips: chipsOf().length, sendable: sendable(),
      ready: !!document.querySelector(hooks.ready), turns: document.querySelectorAll(hooks.turn).length,
      newest: users.length ? users[users.length - 1].dataset.messageId : null,
      generating: !!document.querySelector(hooks.stop), work: !!chosen && /work/i.test(chosen.textContent),
      temporary: new URLSearchParams(location.search).get('temporary-chat') === 'true',
      login: shown(document.querySelector(hooks.login)),
      challenge: challengeTitle.test(document.title) || !!document.querySelector(hooks.challenge),
      dialog: Array.from(document.querySelectorAll(hooks.dialog)).filter(shown).map((node) => node.textContent.slice(0, 400)),
      toast: toasts(),
    };
  },

  rendered() {
    const sections = document.querySelectorAll(hooks.turn);
    const last = sections.length ? sections[sections.length - 1] : null;
    return {state: api.state(), places: placesOf(), failed: !!last && !!last.querySelector(hooks.failed)};
  },

  // How often each hook is found now, and which are missing that must be there; read alone.
  hooks() {
    const {named, turns} = api.state();
    const found = Object.fromEntries(Object.entries(hooks).map(([name, hook]) => [name, document.querySelectorAll([hook].flat().join(', ')).length]));
    const needed = [...always, ...(named && (turns || document.readyState === 'complete') ? inThread : [])];
    return {
      generation: 1, found, missing: needed.filter((name) => !found[name]), lacking: useful.filter((name) => !found[name] && (named || name !== 'place')),
      selectors: Object.fromEntries(Object.entries(hooks).map(([name, hook]) => [name, [hook].flat().join(', ')])),
      told: ['id', 'class', 'role', 'type', 'data-testid', 'data-state', 'data-turn', 'data-message-author-role', 'contenteditable', 'aria-expanded', 'aria-checked',
        'aria-disabled', 'aria-busy', 'aria-haspopup', 'aria-modal', 'disabled', 'hidden', 'multiple', 'accept'],  // a program's words, never a person's
      words: [hooks.message, hooks.body, hooks.said, ...hooks.editor],
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
      chips: chips.length, labels: chips.map((chip) => chip.getAttribute('aria-label') || chip.textContent.trim().slice(0, 300)),
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
    document.querySelectorAll(hooks.unchip).forEach((button) => button.click());
    for (const chip of chipsOf()) Array.from(chip.querySelectorAll('button')).slice(-1).forEach((button) => button.click());  // localised
    inputsOf().forEach((input) => { input.value = ''; });
    return api.untype();
  },

  press() {
    return document.querySelector(hooks.send);
  },

  halt() {
    return document.querySelector(hooks.stop);
  },
};

const done = arguments[arguments.length - 1];
const [name, ...given] = Array.from(arguments).slice(0, -1);
Promise.resolve().then(() => api[name](...given)).then((value) => done({value}), (error) => done({error: String(error && error.name)}));
