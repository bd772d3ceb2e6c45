import { arrange, find, make, setAttribute, setText } from '../browser/elements.ts'
import { SORTS, searchOf, sortedBy, viewOf } from './view.ts'
import type { Choice, Count, Sort, View } from './view.ts'

/** Names of the sorts, for the list of a narrow page. */
const WORDS: Readonly<Record<Sort, string>> = {
  name: 'Name',
  state: 'State, errors first',
  memory: 'Memory',
  traffic: 'Last traffic',
}

/** The filter, the choice of a state and the order: all of it is in the address of the page. */
export class Controls {
  readonly #text = find('text', HTMLInputElement)
  readonly #sort = find('sort', HTMLSelectElement)
  readonly #choices = find('choices', HTMLUListElement)
  readonly #links = new Map<Choice, HTMLAnchorElement>()
  readonly #onChange: () => void
  #view: View = viewOf(location.search)

  constructor(onChange: () => void) {
    this.#onChange = onChange
    this.#sort.append(...SORTS.map((sort) => make('option', { value: sort }, WORDS[sort])))
    this.#text.value = this.#view.text
    this.#text.addEventListener('input', () => this.#change({ ...this.#view, text: this.#text.value }))
    this.#sort.addEventListener('change', () => {
      const sort = SORTS.find((name) => name === this.#sort.value) ?? 'name'
      this.#change(this.#view.sort === sort ? this.#view : sortedBy(this.#view, sort))
    })
    find('filter', HTMLFormElement).addEventListener('submit', (event) => event.preventDefault())
    for (const button of this.#headings())
      button.addEventListener('click', () => this.#change(sortedBy(this.#view, sortOf(button))))
    addEventListener('popstate', () => {
      this.#view = viewOf(location.search)
      this.#text.value = this.#view.text
      this.#onChange()
    })
  }

  get view(): View {
    return this.#view
  }

  /** Shows the view, and how many VMs each choice has. */
  show(counts: readonly Count[]): void {
    this.#sort.value = this.#view.sort
    for (const button of this.#headings()) {
      const isSorted = sortOf(button) === this.#view.sort
      const order = this.#view.descending ? 'descending' : 'ascending'
      setAttribute(button.closest('th'), 'aria-sort', isSorted ? order : 'none')
    }
    arrange(
      this.#choices,
      counts.map((count) => this.#choice(count)),
    )
  }

  /** Shows all VMs again. */
  clear(): void {
    this.#text.value = ''
    this.#change({ ...this.#view, text: '', choice: 'all' })
    this.#text.focus()
  }

  #headings(): readonly HTMLButtonElement[] {
    return [...document.querySelectorAll<HTMLButtonElement>('thead button')]
  }

  #choice({ choice, count }: Count): Element {
    const link = this.#links.get(choice) ?? this.#makeChoice(choice)
    setAttribute(link, 'href', `/ui/${searchOf({ ...this.#view, choice })}`)
    setText(link, `${choiceWords(choice)} ${count.toLocaleString('en')}`)
    setAttribute(link, 'aria-current', String(choice === this.#view.choice))
    return link.parentElement ?? link
  }

  #makeChoice(choice: Choice): HTMLAnchorElement {
    const link = make('a', { 'data-choice': choice })
    make('li', {}, link)
    link.addEventListener('click', (event) => {
      // With a key held, the browser opens the address elsewhere.
      if (event.ctrlKey || event.metaKey || event.shiftKey) return
      event.preventDefault()
      this.#change({ ...this.#view, choice }, true)
    })
    this.#links.set(choice, link)
    return link
  }

  #change(view: View, isStep = false): void {
    this.#view = view
    const address = `/ui/${searchOf(view)}`
    if (isStep) history.pushState(null, '', address)
    else history.replaceState(null, '', address)
    this.#onChange()
  }
}

const sortOf = (button: HTMLButtonElement): Sort =>
  SORTS.find((name) => name === button.dataset['sort']) ?? 'name'

const choiceWords = (choice: Choice): string =>
  choice === 'all' ? 'All' : choice === 'error' ? 'With an error' : choice
