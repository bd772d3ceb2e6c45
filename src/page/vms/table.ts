import { arrange, make, setText } from '../browser/elements.ts'
import type { Row } from './row.ts'

type Cells = {
  readonly group: HTMLTableSectionElement
  readonly labels: HTMLElement
  readonly state: HTMLElement
  readonly since: HTMLElement
  readonly note: HTMLElement
  readonly memory: HTMLElement
  readonly resident: HTMLElement
  readonly traffic: HTMLTimeElement
  readonly addresses: HTMLElement
  readonly errorRow: HTMLTableRowElement
  readonly error: HTMLElement
  shown?: Row
}

/** The table of VMs. Each VM has a group of two rows, the second for its error; rows are changed, not made again. */
export class VmTable {
  readonly #table: HTMLTableElement
  readonly #head: Element
  readonly #hasConsoles: boolean
  readonly #known = new Map<string, Cells>()

  constructor(table: HTMLTableElement, { hasConsoles }: { readonly hasConsoles: boolean }) {
    this.#table = table
    this.#hasConsoles = hasConsoles
    const head = table.tHead
    if (head === null || table.caption === null) throw new Error('the table has no head')
    this.#head = head
    for (const console of hasConsoles ? [] : head.querySelectorAll('.to-console')) console.remove()
  }

  /** Shows these rows in their order. `all` are the ids of every VM: rows of others are forgotten. */
  show(rows: readonly Row[], all: ReadonlyMap<string, unknown>): void {
    for (const id of this.#known.keys()) if (!all.has(id)) this.#known.delete(id)
    const groups = rows.map((row) => {
      const cells = this.#known.get(row.id) ?? this.#make(row.id)
      fill(cells, row)
      return cells.group
    })
    const { caption } = this.#table
    arrange(this.#table, [...(caption === null ? [] : [caption]), this.#head, ...groups])
  }

  #make(id: string): Cells {
    const part = (name: string): HTMLElement => make('span', { class: name })
    const texts = {
      labels: part('labels'),
      state: part('state'),
      since: part('since'),
      note: part('note'),
      memory: part('memory'),
      resident: part('resident'),
      traffic: make('time'),
      addresses: part('addresses'),
      error: part('text'),
    }
    const cell = (name: string, ...children: readonly (Node | string)[]): HTMLElement =>
      make('td', { role: 'cell', class: name }, ...children)
    const head = make('th', { role: 'rowheader', scope: 'row', class: 'name' })
    head.append(make('span', { class: 'id' }, id), ' ', texts.labels)
    const link = make(
      'a',
      { href: `/ui/console/${encodeURIComponent(id)}`, 'aria-label': `Console of ${id}` },
      'Console',
    )
    const main = make(
      'tr',
      { role: 'row' },
      head,
      cell('of-state', texts.state, ' ', texts.since, ' ', texts.note),
      cell('of-memory', texts.memory, ' ', texts.resident),
      cell('of-traffic', texts.traffic),
      cell('of-addresses', texts.addresses),
      ...(this.#hasConsoles ? [cell('to-console', link)] : []),
    )
    const error = make('td', { role: 'cell', colspan: String(main.children.length) })
    error.append(make('strong', {}, 'Error: '), texts.error)
    const errorRow = make('tr', { role: 'row', class: 'error' }, error)
    const group = make('tbody', { role: 'rowgroup' }, main, errorRow)
    const cells: Cells = { group, errorRow, ...texts }
    this.#known.set(id, cells)
    return cells
  }
}

const TEXTS = [
  'labels',
  'state',
  'since',
  'note',
  'memory',
  'resident',
  'traffic',
  'addresses',
  'error',
] as const

function fill(cells: Cells, row: Row): void {
  const { shown } = cells
  for (const name of TEXTS) if (shown?.[name] !== row[name]) setText(cells[name], row[name])
  if (shown?.tone !== row.tone) cells.group.dataset['tone'] = row.tone
  if (shown?.trafficAt !== row.trafficAt) {
    cells.traffic.dateTime = row.trafficAt
    cells.traffic.title = row.trafficAt
  }
  if (shown?.error !== row.error) cells.errorRow.hidden = row.error === ''
  cells.shown = row
}
