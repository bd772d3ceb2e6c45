import { causeFirst } from '../../client/cause-first.ts'
import { hasError } from '../../client/vm-words.ts'
import type { Inventory } from './inventory.ts'

/** VMs that an announcement names; it counts the others. */
const NAMES_MAX = 3

/**
 * Returns what a screen reader should say of a change: errors that began and ended, and nothing of the rest, which
 * would never end on a busy host. Empty if there is nothing to say.
 */
export function announcementOf(before: Inventory, after: Inventory): string {
  const broken = [...after.vms.values()].filter((vm) => {
    const known = before.vms.get(vm.id)
    return hasError(vm) && (known === undefined || !hasError(known))
  })
  const fixed = [...before.vms.values()].filter((vm) => {
    const now = after.vms.get(vm.id)
    return hasError(vm) && now !== undefined && !hasError(now)
  })
  const [first] = broken
  const begun =
    broken.length === 1 && first !== undefined
      ? [`${first.id} has an error: ${causeFirst(first.observed.error ?? 'it failed')}.`]
      : broken.length > 1
        ? [`${namesOf(broken)} have errors.`]
        : []
  const ended =
    fixed.length === 0 ? [] : [`${namesOf(fixed)} ${fixed.length === 1 ? 'has' : 'have'} no error any more.`]
  return [...begun, ...ended].join(' ')
}

function namesOf(vms: readonly { readonly id: string }[]): string {
  const names = vms.slice(0, NAMES_MAX).map(({ id }) => id)
  const rest = vms.length - names.length
  return rest === 0 ? names.join(', ') : `${names.join(', ')} and ${rest} more VMs`
}
