import { arrange, find, make, setText } from '../browser/elements.ts'
import { metersOf, noticesOf } from './capacity.ts'
import type { Meter, Sync } from './capacity.ts'

/** The part of the page that shows the host itself. */
export class Summary {
  readonly #meters = find('meters', HTMLUListElement)
  readonly #notices = find('notices', HTMLUListElement)
  readonly #trouble = find('trouble', HTMLParagraphElement)
  readonly #known = new Map<string, MeterParts>()

  /** Shows the host; `trouble` says why it could not be inspected. */
  show(sync: Sync | undefined, trouble: string | undefined): void {
    setText(this.#trouble, trouble === undefined ? '' : `The capacity is not known: ${trouble}.`)
    this.#trouble.hidden = trouble === undefined
    this.#meters.hidden = sync === undefined
    const notices = sync === undefined ? [] : noticesOf(sync)
    this.#notices.hidden = notices.length === 0
    if (notices.join('\n') !== [...this.#notices.children].map((one) => one.textContent).join('\n'))
      this.#notices.replaceChildren(...notices.map((notice) => make('li', {}, notice)))
    if (sync === undefined) return
    const { host } = sync
    setText(find('host', HTMLElement), host.id)
    setText(find('version', HTMLElement), `vmhostd ${host.version} · Linux ${host.kernel}`)
    arrange(
      this.#meters,
      metersOf(sync.capacity).map((meter) => this.#meter(meter)),
    )
  }

  #meter(meter: Meter): Element {
    const parts = this.#known.get(meter.name) ?? makeMeter(meter.name)
    this.#known.set(meter.name, parts)
    setText(parts.words, meter.words)
    setText(parts.detail, meter.detail)
    // The bar repeats the words, and has no name of its own.
    parts.bar.style.setProperty('--part', String(meter.part))
    parts.item.classList.toggle('full', meter.isFull)
    return parts.item
  }
}

type MeterParts = {
  readonly item: HTMLLIElement
  readonly words: HTMLElement
  readonly detail: HTMLElement
  readonly bar: HTMLElement
}

function makeMeter(name: string): MeterParts {
  const words = make('span', { class: 'words' })
  const detail = make('span', { class: 'detail' })
  const bar = make('span', { class: 'bar', 'aria-hidden': 'true' })
  const item = make('li', {}, make('h3', {}, name), ' ', words, bar, detail)
  return { item, words, detail, bar }
}
