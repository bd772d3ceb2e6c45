import type { Arguments } from './command.ts'

type Origin = { readonly option: string; readonly unit?: string }

/** Options by the member of a request that they set, with the unit that the daemon uses. */
const ORIGINS: ReadonlyMap<string, Origin> = new Map<string, Origin>([
  ['/compute/cpu_millicores', { option: 'cpu', unit: 'millicores' }],
  ['/cpu_millicores', { option: 'cpu', unit: 'millicores' }],
  ['/compute/memory_mib', { option: 'memory', unit: 'MiB' }],
  ['/memory_mib', { option: 'memory', unit: 'MiB' }],
  ['/compute/sleep_after_idle_seconds', { option: 'sleep-after', unit: 'seconds' }],
  ['/sleep_after_idle_seconds', { option: 'sleep-after', unit: 'seconds' }],
  ['/disk/size_mib', { option: 'disk', unit: 'MiB' }],
  ['/disk_mib', { option: 'disk', unit: 'MiB' }],
  ['/network/ipv4_address', { option: 'ipv4' }],
  ['/ipv4_address', { option: 'ipv4' }],
  ['/network/ipv6_address', { option: 'ipv6' }],
  ['/ipv6_address', { option: 'ipv6' }],
  ['/network/mac_address', { option: 'mac' }],
  ['/mac_address', { option: 'mac' }],
  ['/image/kernel_arguments', { option: 'kernel-arguments' }],
  ['/user_data', { option: 'user-data' }],
])

const LABEL = '/labels/'
/** The daemon's placeholder for a name that is not plain. */
const HIDDEN = '…'
const PLAIN_KEY = /^[A-Za-z0-9_.-]{1,64}=/

/** Finds the pointer to a member that the daemon complains about. The key of a label may hold anything. */
const POINTER = /\/labels\/.+?(?= must )|\/[a-z_0-9]+(?:\/[a-z_0-9]+)?(?= must )/g

/** Adds to each member in an error text the option that set it, as it was typed. A member from a file has no option. */
export function withOptions(text: string, given: Arguments | undefined): string {
  return text.replaceAll(POINTER, (pointer) => {
    const typed = given === undefined ? undefined : typedFor(pointer, given)
    return typed === undefined ? pointer : `${pointer} (${typed})`
  })
}

function typedFor(pointer: string, given: Arguments): string | undefined {
  if (pointer.startsWith(LABEL)) {
    const key = pointer.slice(LABEL.length).replaceAll('~1', '/').replaceAll('~0', '~')
    const isMeant = (label: string): boolean =>
      key === HIDDEN ? !PLAIN_KEY.test(label) : label.startsWith(`${key}=`)
    const labels = given.texts('label').filter(isMeant)
    return labels.length === 0 ? undefined : labels.map((label) => `--label ${label}`).join(', ')
  }
  const origin = ORIGINS.get(pointer)
  const value = origin === undefined ? undefined : given.text(origin.option)
  if (origin === undefined || value === undefined) return undefined
  return `--${origin.option} ${value}${origin.unit === undefined ? '' : `, in ${origin.unit}`}`
}
