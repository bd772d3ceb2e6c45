import { limits } from '../../config/limits.ts'
import { DEVICE_PREFIX } from '../network/tap.ts'
import type { Finding } from './finding.ts'
import type { HostFacts } from './host-facts.ts'

/** Returns the findings on how the host routes and filters packets of guests. */
export const judgeNetwork = (facts: HostFacts): readonly Finding[] => [
  ...judgeForwarding(facts),
  judgeLinkDown(facts),
  judgeShared(facts),
  judgeFirewall(facts),
  judgeForwardDrops(facts),
]

const SWITCHES = { ipv4: 'net.ipv4.ip_forward', ipv6: 'net.ipv6.conf.all.forwarding' } as const

function judgeForwarding({ forwarding, advertisedRoutes }: HostFacts): readonly Finding[] {
  return (['ipv4', 'ipv6'] as const).map((family): Finding => {
    const check = `forwarding ${family}`
    const name = SWITCHES[family]
    const value = forwarding[family]
    if (value === undefined) return { check, level: 'ok', found: 'the kernel does not support this family' }
    const losing = family === 'ipv6' ? losingRoute(advertisedRoutes) : []
    if (value && losing.length > 0) return judgeLosing(check, losing)
    if (value) return { check, level: 'ok', found: `${name} = 1` }
    const forward = `echo '${name} = 1' > /etc/sysctl.d/60-vmhostd-${family}.conf`
    const remedy = [...keepRoutes(losing), forward, 'sysctl --system'].join(' && ')
    return { check, level: 'must', found: `${name} = 0: guests reach nothing beyond this host`, remedy }
  })
}

/**
 * Returns devices whose advertised default route the kernel drops when it forwards: those that accept with 1, not 2.
 */
const losingRoute = (routes: HostFacts['advertisedRoutes']): readonly string[] =>
  routes.filter(({ acceptRa }) => acceptRa === 1).map(({ device }) => device)

/** The kernel drops these routes whenever forwarding is switched on, also on another device. */
function judgeLosing(check: string, devices: readonly string[]): Finding {
  const found = `${devices.join(' ')}: the default route is from a router advertisement, and the kernel will drop it`
  return { check, level: 'should', found, remedy: [...keepRoutes(devices), 'sysctl --system'].join(' && ') }
}

/** `sysctl --system` reads files by name, so this one is applied before the one that makes the kernel forward. */
function keepRoutes(devices: readonly string[]): readonly string[] {
  if (devices.length === 0) return []
  const settings = devices.map((device) => `'${settingOf(device)} = 2'`).join(' ')
  return [`printf '%s\\n' ${settings} > /etc/sysctl.d/60-vmhostd-accept-ra.conf`]
}

/** A name with a dot, such as that of a VLAN, needs slashes between the parts: sysctl.d(5). */
const settingOf = (device: string): string =>
  ['net', 'ipv6', 'conf', device, 'accept_ra'].join(device.includes('.') ? '/' : '.')

/** The tap of a sleeping guest has no carrier, and the packet that wakes the guest needs the route to it. */
function judgeLinkDown({ linkDownIgnored }: HostFacts): Finding {
  const check = 'routes to sleeping guests'
  const ignored = (['ipv4', 'ipv6'] as const).filter((family) => linkDownIgnored[family] === true)
  if (ignored.length === 0) return { check, level: 'ok', found: 'the kernel keeps them' }
  const names = ignored.map((family) => `net.${family}.conf.all.ignore_routes_with_linkdown`)
  const found = `${names.map((name) => `${name} = 1`).join(', ')}: no packet wakes a sleeping guest`
  const remedy = `remove it from /etc/sysctl.d, then: sysctl -w ${names.map((name) => `${name}=0`).join(' ')}`
  return { check, level: 'must', found, remedy }
}

const FRAGMENT_BYTES = {
  ipv4: 'net.ipv4.ipfrag_high_thresh',
  ipv6: 'net.netfilter.nf_conntrack_frag6_high_thresh',
} as const

/** Judges whether one guest can take what the kernel has for all, within the bounds that the firewall sets for it. */
function judgeShared({ shared: { connections, fragments } }: HostFacts): Finding {
  const check = 'what guests share'
  const { max = Infinity, perGuest } = connections
  // Those that it opens, and those that others open to it.
  const full = max <= 2 * perGuest ? [`net.netfilter.nf_conntrack_max = ${max}`] : []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const { bytes = Infinity, seconds = 0 } = fragments[family] ?? {}
    const waiting = limits.fragmentsAtOnce + limits.fragmentsPerSecond * seconds
    if (bytes <= waiting * limits.fragmentKeptBytes) full.push(`${FRAGMENT_BYTES[family]} = ${bytes}`)
  }
  if (full.length === 0) return { check, level: 'ok', found: 'one guest cannot fill it' }
  const remedy = 'raise that in /etc/sysctl.d, and run sysctl --system ("What guests share" in networks.md)'
  return { check, level: 'should', found: `one guest can fill it: ${full.join(', ')}`, remedy }
}

const firstLine = (text: string): string => text.split('\n', 1).join('')

/**
 * The daemon writes the whole table or nothing, so one missing part of the kernel leaves all guests without a network.
 */
function judgeFirewall({ firewall }: HostFacts): Finding {
  const check = 'firewall'
  if (firewall.known) return { check, level: 'ok', found: 'the kernel takes the rules of guests' }
  const remedy =
    'install nftables, and boot a kernel with CONFIG_NFT_FIB_INET, CONFIG_NFT_CONNLIMIT, CONFIG_NFT_MASQ and CONFIG_NF_CONNTRACK_TIMEOUT'
  return { check, level: 'must', found: firstLine(firewall.because), remedy }
}

/** Docker and ufw make such tables. This warning must end when the operator has let guests through. */
function judgeForwardDrops({ forwardDrops }: HostFacts): Finding {
  const check = 'other firewalls'
  if (!forwardDrops.known)
    return { check, level: 'should', found: firstLine(forwardDrops.because), remedy: 'nft list chains' }
  const tables = forwardDrops.value
  if (tables.length === 0) return { check, level: 'ok', found: 'none that drops packets of guests' }
  const found = `nftables drops packets of guests beyond this host: ${tables.map((table) => `table ${table}`).join(', ')}`
  const remedy = `let these accept what comes from devices ${DEVICE_PREFIX}* and goes to them ("Other firewalls of the host" in networks.md)`
  return { check, level: 'should', found, remedy }
}

/** Judges whether this host has the address of each listener. */
export const judgeListeners = ({ listeners }: HostFacts): readonly Finding[] =>
  listeners.map(({ listener, table, address, boundAt }): Finding => {
    const check = `listener ${listener}`
    if (!boundAt.known)
      return {
        check,
        level: 'must',
        found: `${address} cannot be bound: ${boundAt.because}`,
        remedy: `give this host that address, or set ${table}.listen_address to one that it has (0.0.0.0: all of IPv4)`,
      }
    const found = boundAt.value === '0.0.0.0' && address === '::' ? `${address}, without IPv6` : address
    return { check, level: 'ok', found: `the address ${found} can be bound` }
  })
