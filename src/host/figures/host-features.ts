import { existsSync, readFileSync, statfsSync } from 'node:fs'
import { release } from 'node:os'
import { run } from '../exec/exec.ts'
import { MIB } from '../../lib/byte-units.ts'

/** Returns the version of systemd, e.g. `257.8-1`. Throws if it cannot be asked. */
export async function systemdVersion(): Promise<string> {
  const { stdout } = await run(['systemctl', '--version'])
  const version = /^systemd \d+ \(([^)]+)\)/m.exec(stdout)?.[1]
  if (version === undefined) throw new Error('systemctl does not answer like systemd')
  return version
}

/** Kernel modules that this daemon can use. */
const MODULES = [
  'tun',
  'nf_tables',
  'nft_fib_inet',
  'nft_connlimit',
  'nf_conntrack_netlink',
  'sch_ingress',
  'cls_bpf',
  'sch_tbf',
  'act_mirred',
  'ifb',
]

/**
 * Returns those of the modules above that are loaded, built in, or can be loaded. Throws if the kernel's modules are
 * not installed here and some are not loaded, as in a container: then nothing shows whether they are built in.
 */
export async function loadableModules(): Promise<ReadonlySet<string>> {
  const loaded = MODULES.filter((name) => existsSync(`/sys/module/${name}`))
  const others = MODULES.filter((name) => !loaded.includes(name))
  if (others.length > 0 && !existsSync(`/lib/modules/${release()}/modules.dep`))
    throw new Error(`the modules of Linux ${release()} are not installed here; not seen: ${others.join(' ')}`)
  const found = await Promise.all(
    others.map(async (name) => {
      const { code } = await run(['modprobe', '--dry-run', '--quiet', name], { okCodes: [0, 1] })
      return code === 0 ? [name] : []
    }),
  )
  return new Set([...loaded, ...found.flat()])
}

/** Whether a setting is on, for each family that the kernel has (Documentation/networking/ip-sysctl.rst). */
type ByFamily = { readonly ipv4?: boolean; readonly ipv6?: boolean }

/** Returns whether the kernel forwards. */
export const forwardingOf = (): ByFamily => settingOf('ipv4/ip_forward', 'ipv6/conf/all/forwarding')

/** Returns whether the kernel skips the routes of all devices without a carrier. */
export const linkDownIgnoredOf = (): ByFamily =>
  settingOf('ipv4/conf/all/ignore_routes_with_linkdown', 'ipv6/conf/all/ignore_routes_with_linkdown')

function settingOf(ipv4: string, ipv6: string): ByFamily {
  const read = (name: string, path: string): object => {
    const file = `/proc/sys/net/${path}`
    return existsSync(file) ? { [name]: readFileSync(file, 'utf8').trim() !== '0' } : {}
  }
  return { ...read('ipv4', ipv4), ...read('ipv6', ipv6) }
}

/** Returns how many connections the kernel tracks; undefined if it tracks none yet. */
export const connectionsMaxOf = (): number | undefined => numberOf('netfilter/nf_conntrack_max')

type FragmentMemory = { readonly bytes: number; readonly seconds: number }

/** Returns the memory in which the kernel puts fragments together before it tracks their connections. */
export function fragmentMemoryOf(): { readonly ipv4?: FragmentMemory; readonly ipv6?: FragmentMemory } {
  const read = (name: string, bytesPath: string, secondsPath: string): object => {
    const [bytes, seconds] = [numberOf(bytesPath), numberOf(secondsPath)]
    return bytes === undefined || seconds === undefined ? {} : { [name]: { bytes, seconds } }
  }
  return {
    ...read('ipv4', 'ipv4/ipfrag_high_thresh', 'ipv4/ipfrag_time'),
    ...read('ipv6', 'netfilter/nf_conntrack_frag6_high_thresh', 'netfilter/nf_conntrack_frag6_timeout'),
  }
}

function numberOf(path: string): number | undefined {
  const file = `/proc/sys/net/${path}`
  return existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined
}

/** Returns the controllers of the unified hierarchy (Documentation/admin-guide/cgroup-v2.rst). Throws without one. */
export function controllersIn(root = '/sys/fs/cgroup'): readonly string[] {
  const path = `${root}/cgroup.controllers`
  if (!existsSync(path)) throw new Error(`${root} is not the unified hierarchy of control groups`)
  return readFileSync(path, 'utf8').trim().split(/\s+/)
}

/**
 * Returns the space of a directory's file system for others than root. Throws errors of system calls. The kernel has
 * the figures in memory, and the records are there, which are read and written in this thread.
 */
export function availableMibIn(directory: string): number {
  const { bsize, bavail } = statfsSync(directory)
  return Math.floor((bsize * bavail) / MIB)
}

/** Returns whether a time service has set the clock (timedatectl(1), NTPSynchronized). Throws if it cannot be asked. */
export async function isClockSet(): Promise<boolean> {
  const { stdout } = await run(['timedatectl', 'show', '--property=NTPSynchronized', '--value'])
  return stdout.trim() === 'yes'
}

const ROUTES = '/proc/net/ipv6_route'

/** RTF_ADDRCONF of linux/ipv6_route.h: the kernel learned this route from a router advertisement. */
const ADVERTISED = 0x4_0000

const ANYWHERE = /^0{32} 00 /

/**
 * Returns the devices with an IPv6 default route that the kernel learned from a router advertisement, with their switch
 * `accept_ra` (Documentation/networking/ip-sysctl.rst). Routes of systemd-networkd and NetworkManager do not count.
 */
export function advertisedRoutes(): readonly { readonly device: string; readonly acceptRa: number }[] {
  if (!existsSync(ROUTES)) return []
  return advertisedDevicesIn(readFileSync(ROUTES, 'utf8')).flatMap((device) => {
    const file = `/proc/sys/net/ipv6/conf/${device}/accept_ra`
    // The device may be gone by now, and its route with it.
    return existsSync(file) ? [{ device, acceptRa: Number.parseInt(readFileSync(file, 'utf8'), 10) }] : []
  })
}

/** Returns the devices of advertised default routes in a table as `/proc/net/ipv6_route` has it. */
export function advertisedDevicesIn(table: string): readonly string[] {
  const devices = table.split('\n').flatMap((line) => {
    const [flags = '', device = ''] = line.trimEnd().split(/\s+/).slice(-2)
    const isAdvertised = (Number.parseInt(flags, 16) & ADVERTISED) !== 0
    return ANYWHERE.test(line) && isAdvertised ? [device] : []
  })
  return [...new Set(devices)]
}
