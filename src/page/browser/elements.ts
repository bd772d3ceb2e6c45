/** Makes an element with a class, texts and children. Texts of the host are never markup. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** Sets a text only if it differs, so that nothing is laid out or spoken again. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** Sets an attribute only if it differs. */
export function setAttribute(element: Element | null, name: string, value: string): void {
  if (element?.getAttribute(name) !== value) element?.setAttribute(name, value)
}

/** Returns the element of the page with this id. Throws if it is not there: a bug. */
export function find<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.querySelector(`#${id}`)
  if (!(found instanceof kind)) throw new Error(`the page has no #${id}`)
  return found
}

/**
 * Puts children in this order, and removes others. Moves only those that are not in their place, so that the selection
 * stays where it is. Keeps the focus, which an element loses when it is moved.
 */
export function arrange(parent: Element, children: readonly Element[]): void {
  const { activeElement: focused } = document
  const wanted = new Set<Element>(children)
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove()
  let place = parent.firstElementChild
  for (const child of children) {
    if (child === place) place = child.nextElementSibling
    else parent.insertBefore(child, place)
  }
  const isLost = focused !== document.activeElement && parent.contains(focused)
  if (isLost && focused instanceof HTMLElement) focused.focus({ preventScroll: true })
}
