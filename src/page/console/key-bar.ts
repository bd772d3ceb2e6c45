import { find, setAttribute } from '../browser/elements.ts'
import { controlOf, KEYS } from './keys.ts'
import type { Key } from './keys.ts'

/** The keys below the terminal, for devices without a keyboard of their own. */
export class KeyBar {
  readonly #control = find('control', HTMLButtonElement)
  #isControlHeld = false

  constructor(press: (key: Key) => void) {
    const place = find('keys', HTMLElement)
    // A button that takes the focus from the terminal closes the keyboard of a phone.
    place.addEventListener('pointerdown', (event) => event.preventDefault())
    place.addEventListener('click', ({ target }) => {
      if (target === this.#control) this.#hold(!this.#isControlHeld)
      const name = target instanceof HTMLElement ? target.dataset['key'] : undefined
      const key = KEYS.find((one) => one === name)
      if (key !== undefined) press(key)
    })
  }

  /** Returns what to send for typed text. Ctrl applies to the next character, and is released by it. */
  typed(text: string): string {
    const control = this.#isControlHeld ? controlOf(text) : undefined
    if (control === undefined) return text
    this.#hold(false)
    return control
  }

  #hold(isHeld: boolean): void {
    this.#isControlHeld = isHeld
    setAttribute(this.#control, 'aria-pressed', String(isHeld))
  }
}
