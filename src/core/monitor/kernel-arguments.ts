import { GATEWAY_IPV4 } from '../network/tap.ts'
import type { VmId } from '../ids.ts'

export type Architecture = 'x64' | 'arm64'

/** The inputs of a guest's kernel command line. */
type KernelArguments = {
  readonly id: VmId
  readonly architecture: Architecture
  readonly ipv4Address?: string
  /** Set if the guest's time stamp counter is the host's and its frequency is known. */
  readonly tscKhz?: number
  /** How it reboots on x86, as `reboot=` takes it; by a triple fault when absent. */
  readonly reboot?: 'k'
  /** The VM's own arguments, which come last: of two contradicting arguments, the kernel takes the last one. */
  readonly own: string
}

/** The first serial port of each machine, which is the VM's console. */
const CONSOLE = { x64: 'ttyS0', arm64: 'ttyAMA0' }

/**
 * Renders the kernel command line (Linux, Documentation/admin-guide/kernel-parameters.rst). A panic reboots at once and
 * a reboot ends the monitor, so that a dead guest is seen. On x86 it reboots by triple fault, the only way that needs
 * no device.
 */
export function renderKernelArguments(guest: KernelArguments): string {
  const { id, architecture, ipv4Address, tscKhz, reboot = 't', own } = guest
  const words = [`console=${CONSOLE[architecture]}`, 'root=/dev/vda', 'rw', 'panic=-1']
  if (architecture === 'x64') words.push(`reboot=${reboot}`)
  // Without `tsc=reliable` the kernel compares the counter with its ticks, which come late on a busy host. It then
  // gives up the counter, and this board has no other clock: the guest's timers stop.
  if (tscKhz !== undefined) words.push(`tsc_early_khz=${tscKhz}`, 'tsc=reliable')
  if (ipv4Address !== undefined) words.push(renderIp(id, ipv4Address))
  if (own.trim() !== '') words.push(own.trim())
  return words.join(' ')
}

/**
 * Renders `ip=CLIENT:SERVER:GATEWAY:NETMASK:HOSTNAME:DEVICE:AUTOCONF` (Documentation/admin-guide/nfs/nfsroot.rst), for
 * programs that read it in the guest. The link is routed, so the gateway is outside of the netmask. dracut and our demo
 * guest first add a route to it; a kernel with IP_PNP sets the address only. The device stays empty: there is one, and
 * its name depends on the guest.
 */
const renderIp = (id: VmId, ipv4Address: string): string =>
  `ip=${ipv4Address}::${GATEWAY_IPV4}:255.255.255.255:${id}::off`

/**
 * Returns the frequency of the host's time stamp counter, from the text of /proc/cpuinfo (proc_cpuinfo(5)); undefined
 * if it is not shown there. `cpu MHz` is the counter's frequency if the kernel knows it from outside (`tsc_known_freq`,
 * as from hypervisors) and cannot measure the present frequency of the core (`aperfmperf`).
 */
export function knownTscKhz(cpuinfo: string): number | undefined {
  const flags = new Set(/^flags\s*: (.*)$/m.exec(cpuinfo)?.[1]?.split(' '))
  if (!flags.has('constant_tsc') || !flags.has('tsc_known_freq') || flags.has('aperfmperf')) return undefined
  const mhz = /^cpu MHz\s*: ([\d.]+)$/m.exec(cpuinfo)?.[1]
  return mhz === undefined ? undefined : Math.round(Number(mhz) * 1000)
}
