// The structure of a page without anything that anybody wrote: tags, roles, test ids, states, lengths of text. It knows no site: `words` are
// selectors of what holds people's words, of which no more than size is told, `kept` the attributes whose values a program gave. What it
// gives is checked once more by outline.py.
const [words, kept, most, done] = arguments;
const skipped = new Set(['SCRIPT', 'STYLE', 'LINK', 'META', 'NOSCRIPT', 'TEMPLATE', 'SVG', 'svg', 'PATH', 'IFRAME']);
let left = most;

const size = (element) => Array.from(element.children).reduce((sum, child) => sum + size(child), 1);

function outline(element, depth) {
  left -= 1;
  const attributes = {};
  for (const {name, value} of element.attributes) {
    if (kept.includes(name)) attributes[name] = value.slice(0, 200);
    else if (/^(data|aria)-/.test(name)) attributes[name] = null;
  }
  const text = Array.from(element.childNodes).reduce((sum, node) => sum + (node.nodeType === Node.TEXT_NODE ? node.data.trim().length : 0), 0);
  const node = {tag: element.localName, attributes, text, shown: element.getClientRects().length > 0, children: []};
  if (element.matches(words)) {
    node.text = element.textContent.length;
    node.within = size(element) - 1;
    return node;
  }
  for (const child of element.children) {
    if (skipped.has(child.nodeName)) continue;
    if (left <= 0 || depth > 40) { node.more = true; break; }
    node.children.push(outline(child, depth + 1));
  }
  return node;
}

done({value: outline(document.body, 0)});
