import type { components } from '../../client/schema.d.ts'
import type { Vm } from './row.ts'

export type VmList = components['schemas']['VmList']

/** Every VM of the host by its id, as it was at a revision. */
export type Inventory = {
  readonly vms: ReadonlyMap<string, Vm>
  /** All changes up to it are in. */
  readonly revision: number
}

/**
 * Returns the inventory of a list in pages. VMs may change while the pages are read, so the revision is that of the
 * first page: what changed since then is read again, and nothing is missed.
 */
export function inventoryOf(pages: readonly VmList[]): Inventory {
  const all = pages.flatMap(({ items }) => items)
  return { vms: new Map(all.map((vm) => [vm.id, vm])), revision: pages[0]?.revision ?? 0 }
}

/**
 * Returns the inventory after the changes that follow its revision (`changed_after`).
 * Unchanged VMs stay the same objects.
 */
export function withChanges({ vms }: Inventory, { items, deleted = [], revision }: VmList): Inventory {
  const next = new Map(vms)
  for (const id of deleted) next.delete(id)
  for (const vm of items) next.set(vm.id, vm)
  return { vms: next, revision }
}

/**
 * Returns whether an event is news: the list was read before it. Numbers of events and revisions of VMs come from the
 * same counter.
 */
export const isNews = ({ revision }: Inventory, sequence: number): boolean => sequence > revision
