// Pantry: a shopping list with a form and settings, whose state is `pantry` in the browser's storage.

const INITIAL = {
  items: [
    {name: 'Bread', amount: 1, bought: false},
    {name: 'Eggs', amount: 12, bought: false},
    {name: 'Rice', amount: 2, bought: true},
  ],
  dark: false,
};

function load() {
  return JSON.parse(localStorage.getItem('pantry')) ?? structuredClone(INITIAL);
}

function change(edit) {
  const state = load();
  edit(state);
  localStorage.setItem('pantry', JSON.stringify(state));
  show();
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function button(text, onclick) {
  return element('button', {textContent: text, onclick});
}

function link(text, page) {
  return button(text, () => { location.hash = page; });
}

function row(item, index) {
  const box = element('input', {
    type: 'checkbox',
    checked: item.bought,
    onchange: () => change((state) => { state.items[index].bought = box.checked; }),
  });
  const label = element('label', {}, box, `${item.name} (${item.amount})`);
  const remove = button('Delete', () => change((state) => { state.items.splice(index, 1); }));
  remove.ariaLabel = `Delete ${item.name}`;
  return element('li', {}, element('span', {}, label), remove);
}

const PAGES = {
  list: (state) => ['Pantry', [link('Add', 'add'), link('Settings', 'settings')], [
    element('ul', {}, ...state.items.map(row)),
  ]],
  add: () => {
    const name = element('input', {placeholder: 'Name'});
    const amount = element('input', {placeholder: 'Amount', inputMode: 'numeric'});
    const save = button('Save', () => {
      if (!name.value.trim()) return;
      change((state) => {
        state.items.push({name: name.value.trim(), amount: Number(amount.value) || 1, bought: false});
      });
      location.hash = 'list';
    });
    return ['Add', [link('Back', 'list')], [name, amount, save]];
  },
  settings: (state) => {
    const dark = element('input', {
      type: 'checkbox',
      checked: state.dark,
      onchange: () => change((changed) => { changed.dark = dark.checked; }),
    });
    const clear = button('Delete what was bought', () => change((changed) => {
      changed.items = changed.items.filter((item) => !item.bought);
    }));
    return ['Settings', [link('Back', 'list')], [element('label', {}, dark, 'Dark theme'), clear]];
  },
};

function show() {
  const state = load();
  const [title, actions, content] = (PAGES[location.hash.slice(1)] ?? PAGES.list)(state);
  document.body.className = state.dark ? 'dark' : '';
  document.querySelector('header').replaceChildren(element('h1', {textContent: title}), ...actions);
  document.querySelector('main').replaceChildren(...content);
}

addEventListener('hashchange', show);
show();
