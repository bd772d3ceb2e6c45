import { addressesOf, hasError, labelsOf } from '../../client/vm-words.ts'
import type { ObservedState, Vm } from './row.ts'

/** Columns by which the list can be sorted. */
export const SORTS = ['name', 'state', 'memory', 'traffic'] as const
export type Sort = (typeof SORTS)[number]

/** VMs in one state, VMs with an error, or all of them. */
export type Choice = 'all' | 'error' | ObservedState

/**
 * The part of the list that is shown, and its order. The address of the page has it, so a view can be kept and sent.
 */
export type View = {
  readonly text: string
  readonly choice: Choice
  readonly sort: Sort
  readonly descending: boolean
}

/**
 * States in the order in which an operator wants to see them. A record by name:
 * a new state does not compile until it is here.
 */
const RANKS: Readonly<Record<ObservedState, number>> = {
  failed: 0,
  starting: 1,
  waking: 2,
  pausing: 3,
  stopping: 4,
  deleting: 5,
  pending: 6,
  running: 7,
  paused: 8,
  sleeping: 9,
  stopped: 10,
  migrated: 11,
}

const STATES = Object.keys(RANKS) as readonly ObservedState[]

/** Parses the query of the page: `?q=web&state=error&sort=memory&order=desc`. Passes over what it does not know. */
export function viewOf(search: string): View {
  const query = new URLSearchParams(search)
  const choice = query.get('state') ?? 'all'
  const sort = SORTS.find((name) => name === query.get('sort')) ?? 'name'
  return {
    text: query.get('q') ?? '',
    choice: choice === 'error' ? choice : (STATES.find((state) => state === choice) ?? 'all'),
    sort,
    descending: query.get('order') === 'desc',
  }
}

/** Returns the query of a view, without what is so by default; empty for the default. */
export function searchOf({ text, choice, sort, descending }: View): string {
  const query = new URLSearchParams({
    ...(text === '' ? {} : { q: text }),
    ...(choice === 'all' ? {} : { state: choice }),
    ...(sort === 'name' ? {} : { sort }),
    ...(descending ? { order: 'desc' } : {}),
  }).toString()
  return query === '' ? '' : `?${query}`
}

/** Returns the view after a choice of a column: the same column again turns the order. */
export function sortedBy(view: View, sort: Sort): View {
  if (view.sort === sort) return { ...view, descending: !view.descending }
  // Most memory and newest traffic are what such an order is wanted for.
  return { ...view, sort, descending: sort === 'memory' || sort === 'traffic' }
}

/** Returns the VMs of a view in its order. */
export function visible(vms: Iterable<Vm>, view: View): readonly Vm[] {
  const words = view.text.toLowerCase().split(/\s+/).filter(Boolean)
  const chosen = [...vms].filter((vm) => isChosen(vm, view.choice) && hasWords(vm, words))
  const sign = view.descending ? -1 : 1
  return chosen.toSorted((a, b) => sign * orders[view.sort](a, b) || byName(a, b))
}

function isChosen(vm: Vm, choice: Choice): boolean {
  if (choice === 'all') return true
  return choice === 'error' ? hasError(vm) : vm.observed.state === choice
}

/** Returns whether each word is in the id, a label, an address, the state or the error. */
function hasWords(vm: Vm, words: readonly string[]): boolean {
  if (words.length === 0) return true
  const { state, error = '' } = vm.observed
  const text = [vm.id, state, error, ...addressesOf(vm), ...labelsOf(vm)].join('\n').toLowerCase()
  return words.every((word) => text.includes(word))
}

const collator = new Intl.Collator('en', { numeric: true })

const byName = (a: Vm, b: Vm): number => collator.compare(a.id, b.id)

/** Errors first, then by the order of states. */
const rankOf = (vm: Vm): number => (hasError(vm) ? -1 : RANKS[vm.observed.state])

const trafficMs = ({ observed: { last_traffic_at: at } }: Vm): number =>
  at === undefined ? 0 : Date.parse(at)

const orders: Readonly<Record<Sort, (a: Vm, b: Vm) => number>> = {
  name: byName,
  state: (a, b) => rankOf(a) - rankOf(b),
  memory: (a, b) => a.desired.compute.memory_mib - b.desired.compute.memory_mib,
  traffic: (a, b) => trafficMs(a) - trafficMs(b),
}

/** A choice with the number of its VMs. */
export type Count = { readonly choice: Choice; readonly count: number }

/**
 * Counts the VMs of each choice: all, those with an error, then each state that a VM is in.
 * The chosen one is always there.
 */
export function countsOf(vms: Iterable<Vm>, chosen: Choice): readonly Count[] {
  const all = [...vms]
  const counts: readonly Count[] = [
    { choice: 'error', count: all.filter(hasError).length },
    ...STATES.map((state) => ({
      choice: state,
      count: all.filter(({ observed }) => observed.state === state).length,
    })),
  ]
  return [
    { choice: 'all', count: all.length },
    ...counts.filter(({ choice, count }) => count > 0 || choice === chosen),
  ]
}

/** Says how many VMs a view shows: `1,000 VMs`, `12 of 1,000 VMs`. */
export function countWords(shown: number, all: number): string {
  const noun = all === 1 ? 'VM' : 'VMs'
  const total = all.toLocaleString('en')
  return shown === all ? `${total} ${noun}` : `${shown.toLocaleString('en')} of ${total} ${noun}`
}
