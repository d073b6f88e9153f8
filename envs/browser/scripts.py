"""JavaScript that runs in pages."""

SETTLE = """
async (limitMs) => {
  let changes = 0;
  const watch = new MutationObserver(() => { changes += 1; });
  watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const frame = () => new Promise((resume) => {
    requestAnimationFrame(() => setTimeout(resume));
    setTimeout(resume, 1000);  // a page that is busy draws none for long
  });
  const moves = () => document.getAnimations().some(
    (a) => a.playState === 'running' && a.effect && Number.isFinite(a.effect.getComputedTiming().endTime));
  for (let begun = performance.now(), still = 0; still < 2 && performance.now() - begun < limitMs;) {
    const before = changes;
    await frame();
    still = changes === before && !moves() ? still + 1 : 0;
  }
  watch.disconnect();
  let field = document.activeElement;
  while (field && field.shadowRoot && field.shadowRoot.activeElement) field = field.shadowRoot.activeElement;
  const box = (field || document.body).getBoundingClientRect();
  const seen = window.visualViewport;
  return [[seen.scale, seen.pageLeft, seen.pageTop, box.left, box.top, box.right, box.bottom], (%s)()];
}
"""
"""Waits until nothing has changed for two frames, at most `limitMs`. Returns how much the page is enlarged, the part of
it that is on the screen, and the box of the element with the focus; and the value of the function that takes the
place of %s."""

CLICKED = """
(limitMs) => new Promise((resume) => {
  addEventListener('click', () => setTimeout(resume), {capture: true, once: true});
  setTimeout(resume, limitMs);
})
"""
"""Waits until a tap has become a click, which Chromium does some time after the finger was lifted."""

PREPARE_FIELD = """
(text) => {
  let field = document.activeElement;
  while (field && field.shadowRoot && field.shadowRoot.activeElement) field = field.shadowRoot.activeElement;
  const fixed = ['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'];
  const closed = ['checkbox', 'radio', 'button', 'submit', 'reset', 'file', 'image', 'hidden'];
  if (field instanceof HTMLInputElement && fixed.includes(field.type)) {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, text);
    if (field.value !== text) return `a field of the type ${field.type} does not take this text`;
    for (const name of ['input', 'change']) field.dispatchEvent(new Event(name, {bubbles: true}));
    return 'done';
  }
  const open = field instanceof HTMLTextAreaElement
    || field instanceof HTMLInputElement && !closed.includes(field.type);
  if (open && !field.readOnly && !field.disabled) { field.select(); return field.value ? 'replace' : 'type'; }
  if (field && field.isContentEditable) {
    getSelection().selectAllChildren(field);
    return field.textContent ? 'replace' : 'type';
  }
  return '';
}
"""
"""Makes the field with the focus ready for `text`. Returns '' without a field, 'done' if the text is set already (in a
date, say), 'replace' or 'type' if it is to be typed, over a selected text or not, and else why it cannot be."""

VIEWPORT = """
new MutationObserver((_, watch) => {
  if (!document.head) return;
  watch.disconnect();
  if (document.querySelector('meta[name=viewport]')) return;
  const line = document.createElement('meta');
  line.name = 'viewport';
  line.content = %s;
  document.head.append(line);
}).observe(document, {childList: true, subtree: true});
"""
"""Gives a page that lacks it the line about its width on phones."""

PICKER = """
(() => {
  const pick = (list) => {
    const host = document.createElement('div');
    host.style.cssText = 'position:fixed;inset:0;z-index:2147483647;background:#0006';
    const panel = document.createElement('div');
    panel.style.cssText = 'position:absolute;inset:4%;overflow-y:auto;background:#fff;color:#000;font:12px sans-serif';
    const row = (label, chosen, act) => {
      const button = document.createElement('button');
      button.textContent = label;
      button.style.cssText = 'display:block;width:100%;padding:6px;border:0;text-align:left;background:'
        + (chosen ? '#cdf' : '#fff');
      if (chosen) button.setAttribute('aria-selected', 'true');
      button.addEventListener('click', (event) => { event.stopPropagation(); act(button); });
      panel.append(button);
    };
    const tell = () => ['input', 'change'].forEach((name) => list.dispatchEvent(new Event(name, {bubbles: true})));
    for (const option of list.options) {
      if (option.disabled || option.hidden) continue;
      row(option.label, option.selected, () => {
        option.selected = list.multiple ? !option.selected : true;
        tell();
        host.remove();
        if (list.multiple) pick(list);
      });
    }
    if (list.multiple) row('OK', false, () => host.remove());
    host.attachShadow({mode: 'closed'}).append(panel);
    document.documentElement.append(host);
  };
  document.addEventListener('mousedown', (event) => {
    const list = event.target instanceof Element && event.target.closest('select');
    if (!list || list.disabled) return;
    event.preventDefault();
    list.focus();
    pick(list);
  }, true);
})();
"""
"""Shows the options of a list in the page when it is tapped, as a phone does; Chromium's own are in another window."""
