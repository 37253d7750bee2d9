// Elements, and their replacement in place.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Return an HTML element. Text is only ever text: nothing that a topology says is read as HTML. */
export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);

/** Return an SVG element. */
export const s = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

/** Make the children of `target` like `fresh`, in place: what stays the same keeps its focus and its scroll. */
export function show(target, ...fresh) {
  const wanted = fresh.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  const present = [...target.childNodes];
  for (let at = 0; at < Math.max(present.length, wanted.length); at += 1) {
    if (at >= wanted.length) present[at].remove();
    else if (at >= present.length) target.append(wanted[at]);
    else if (!alike(present[at], wanted[at])) present[at].replaceWith(wanted[at]);
    else become(present[at], wanted[at]);
  }
}

function alike(a, b) {
  if (a.nodeName !== b.nodeName || a.nodeType !== b.nodeType) return false;
  return a.nodeType !== Node.ELEMENT_NODE || a.dataset?.key === b.dataset?.key;
}

function become(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  const persons = (name) => name === "open" && old.nodeName === "DETAILS"; // whether it is open is up to who looks
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !persons(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !persons(name)) old.setAttribute(name, value);
  show(old, ...fresh.childNodes);
}
