import { limits } from '../../config/limits.ts'
import { networkFamily, parseAddress } from '../../core/network/address.ts'
import { keys, remove, update } from './libbpf.ts'
import { u32 } from './traffic-maps.ts'
import type { BpfMap } from './libbpf.ts'
import type { MapName } from './traffic-maps.ts'

/** Traffic that reaches guests but must not wake them, such as health checks: `[sleep]` of the configuration. */
export type IgnoredTraffic = {
  /** Networks in CIDR form. */
  readonly ignoreSources: readonly string[]
  /** Destination ports. */
  readonly ignorePortsTcp: readonly number[]
  readonly ignorePortsUdp: readonly number[]
  /** Ignores packets whose mark under the mask equals this value; a mask of 0 ignores none. */
  readonly ignoreMark: number
  readonly ignoreMarkMask: number
}

export const NOTHING_IGNORED: IgnoredTraffic = {
  ignoreSources: [],
  ignorePortsTcp: [],
  ignorePortsUdp: [],
  ignoreMark: 0,
  ignoreMarkMask: 0,
}

/** The mark of the daemon's own packets that do not count, if the configuration names none: `vmhd` in ASCII. */
export const OWN_MARK = 0x766d_6864

/** Returns what to ignore, always with a mark: the daemon gives it to packets of its own that must not count. */
export const withOwnMark = (ignored: IgnoredTraffic): IgnoredTraffic =>
  ignored.ignoreMarkMask === 0 ? { ...ignored, ignoreMark: OWN_MARK, ignoreMarkMask: 0xffff_ffff } : ignored

/** linux/in.h. */
const IPPROTO = { tcp: 6, udp: 17 }
/** HAS_IPV4 and so on of bpf/traffic.bpf.c. The program skips maps that are empty. */
const HAS = { ignored_ipv4: 1, ignored_ipv6: 2, ignored_ports: 4 } as const

type Maps = Readonly<Record<MapName, BpfMap>>

/** Writes the program's settings, and removes what was ignored before. Throws ErrnoError. */
export function writeSettings(maps: Maps, ignored: IgnoredTraffic): void {
  const wanted = {
    ignored_ipv4: sourceKeys(ignored, 'ipv4'),
    ignored_ipv6: sourceKeys(ignored, 'ipv6'),
    ignored_ports: [
      ...ignored.ignorePortsTcp.map((port) => portKey(IPPROTO.tcp, port)),
      ...ignored.ignorePortsUdp.map((port) => portKey(IPPROTO.udp, port)),
    ],
  }
  let has = 0
  for (const name of ['ignored_ipv4', 'ignored_ipv6', 'ignored_ports'] as const) {
    replaceKeys(maps[name], wanted[name])
    if (wanted[name].length > 0) has |= HAS[name]
  }
  const { ignoreMark, ignoreMarkMask } = ignored
  const bounds = [limits.heldFramesMax, limits.heldBytesMax]
  const settings = [...bounds, ignoreMark, ignoreMarkMask, has, 0].map(u32)
  update(maps.settings, u32(0), Buffer.concat(settings))
}

function replaceKeys(map: BpfMap, wanted: readonly Buffer[]): void {
  for (const key of keys(map)) if (!wanted.some((other) => other.equals(key))) remove(map, key)
  for (const key of wanted) update(map, key, u32(1))
}

/** struct bpf_lpm_trie_key of linux/bpf.h: the length of the prefix, then the address as on the wire. */
function sourceKeys({ ignoreSources }: IgnoredTraffic, family: 'ipv4' | 'ipv6'): Buffer[] {
  const networks = ignoreSources.filter((network) => networkFamily(network) === family)
  return networks.map((network) => {
    const [address = '', prefix] = network.split('/')
    return Buffer.concat([u32(Number(prefix)), parseAddress(address) ?? new Uint8Array()])
  })
}

const portKey = (protocol: number, port: number): Buffer => Buffer.from([protocol, 0, port >> 8, port & 0xff])
