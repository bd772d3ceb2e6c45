import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { textComplaints, urlComplaints } from './values.ts'
import { parseNetwork } from '../../core/network/address.ts'
import { parseGuestAddress, parseGuestPrefix, parseNameServer } from '../../core/network/guest-address.ts'
import { readinessComplaints, readinessFromWire } from './guest.ts'
import { exitFromWire } from './exit.ts'
import { fromWire } from './member-mapper.ts'
import type { ChangeOf } from '../../lib/changed.ts'
import type {
  BootChange,
  ComputeChange,
  CreateVm,
  CreateNetwork,
  InputsChange,
  SourcedImage,
  SetNetwork,
} from '../../core/vm/create.ts'
import type { ImageRole, InboundRule, OutboundRule, PortRange, Compute, Disk } from '../../core/desired.ts'
import type { Sha256, MacAddress } from '../../core/ids.ts'
import type { Complaint } from '../../lib/schema-check.ts'
import type { Result } from '../../lib/result.ts'
import type {
  CreateVmWire,
  RebuildWire,
  SetBootWire,
  SetComputeWire,
  SetDiskWire,
  SetSeedWire,
} from './requests.ts'
import type { AddressFamily } from '../../core/network/guest-address.ts'
import type { CreateNetworkWire, SetNetworkWire } from './network.ts'

type ImageWire = CreateVmWire['image']['rootfs']

/**
 * Translates the request to the domain, or returns the errors that the schema cannot find. From here on a URL is a
 * {@link SignedUrl} and cannot be printed.
 */
export function createFromWire(body: CreateVmWire): Result<CreateVm, readonly Complaint[]> {
  const complaints = [
    ...freeTextComplaints(body),
    ...imagesOf(body).flatMap(([role, { url }]) => urlComplaints(`/image/${role}/url`, url)),
    ...(body.readiness === undefined ? [] : readinessComplaints('/readiness', body.readiness)),
  ]
  const network =
    body.network === undefined ? undefined : networkFromWire(body.network, '/network', complaints)
  if (complaints.length > 0) return err(complaints)
  const { image } = body
  return ok({
    power: body.power,
    compute: computeFromWire(body.compute),
    disk: diskFromWire(body.disk),
    metadata: { labels: body.labels ?? {}, protected: body.protected ?? false },
    image: {
      images: imagesOf(body).map(([role, one]) => ({ role, ...imageFromWire(one) })),
      ...given({ kernelArguments: image.kernel_arguments }),
    },
    ...given({
      network,
      monitor: body.monitor,
      userData: body.user_data,
      readiness: body.readiness && readinessFromWire(body.readiness),
      exit: exitFromWire(body),
    }),
    sshAuthorizedKeys: body.ssh_authorized_keys ?? [],
  })
}

/** Translates a rebuild in the same way. */
export function rebuildFromWire({ rootfs }: RebuildWire): Result<SourcedImage, readonly Complaint[]> {
  const complaints = urlComplaints('/rootfs/url', rootfs.url)
  return complaints.length > 0 ? err(complaints) : ok(imageFromWire(rootfs))
}

/** Translates what a guest boots with in the same way. */
export function bootFromWire({
  kernel,
  initrd,
  kernel_arguments,
}: SetBootWire): Result<BootChange, readonly Complaint[]> {
  const images = Object.entries({ kernel, initrd: initrd ?? undefined })
  const complaints = images.flatMap(([role, image]) =>
    image === undefined ? [] : urlComplaints(`/${role}/url`, image.url),
  )
  if (complaints.length > 0) return err(complaints)
  return ok(
    given({
      kernel: kernel && imageFromWire(kernel),
      initrd: initrd && imageFromWire(initrd),
      kernelArguments: kernel_arguments,
    }),
  )
}

const imageFromWire = ({ url, sha256 }: ImageWire): SourcedImage => ({
  sha256: sha256 as Sha256,
  source: { url: new SignedUrl(url) },
})

function imagesOf({ image }: CreateVmWire): (readonly [ImageRole, ImageWire])[] {
  const images: (readonly [ImageRole, ImageWire])[] = [
    ['rootfs', image.rootfs],
    ['kernel', image.kernel],
  ]
  if (image.initrd !== undefined) images.push(['initrd', image.initrd])
  return images
}

/** Translates user data and keys, or returns the errors that the schema cannot find. */
export function seedFromWire(body: SetSeedWire): Result<InputsChange, readonly Complaint[]> {
  const complaints = freeTextComplaints(body)
  if (complaints.length > 0) return err(complaints)
  return ok(given({ userData: body.user_data, sshAuthorizedKeys: body.ssh_authorized_keys }))
}

function freeTextComplaints(body: SetSeedWire): Complaint[] {
  return [
    ...textComplaints('/user_data', body.user_data ?? '', limits.userDataBytesMax),
    ...(body.ssh_authorized_keys ?? []).flatMap((key, index) =>
      textComplaints(`/ssh_authorized_keys/${index}`, key, limits.sshKeyBytesMax),
    ),
  ]
}

type FirewallWire = NonNullable<CreateNetworkWire['firewall']>
type RuleWire = Pick<NonNullable<FirewallWire['inbound']>[number], 'protocol' | 'ports'>

/** Translates a network to the domain. Adds the errors that the schema cannot find to `complaints`. */
export function networkFromWire(
  network: CreateNetworkWire,
  pointer: string,
  complaints: Complaint[],
): CreateNetwork {
  const address = (family: AddressFamily, text: string | undefined): string | undefined => {
    if (text === undefined) return undefined
    const parsed = parseGuestAddress(family, text)
    if (parsed.ok) return parsed.value
    complaints.push({ pointer: `${pointer}/${family}_address`, code: 'not_allowed', detail: parsed.error })
    return undefined
  }
  const prefix = network.ipv6_prefix === undefined ? undefined : parseGuestPrefix(network.ipv6_prefix)
  if (prefix?.ok === false)
    complaints.push({ pointer: `${pointer}/ipv6_prefix`, code: 'not_allowed', detail: prefix.error })
  const ipv4Address = address('ipv4', network.ipv4_address)
  const ipv6Address = address('ipv6', network.ipv6_address)
  const nameServers = network.name_servers?.map((text, index) => {
    const parsed = parseNameServer(text)
    if (parsed.ok) return parsed.value
    const place = `${pointer}/name_servers/${index}`
    complaints.push({ pointer: place, code: 'not_allowed', detail: parsed.error })
    return text
  })
  const bandwidth = bandwidthFromWire(network.bandwidth)
  return given({
    macAddress: network.mac_address as MacAddress | undefined,
    ipv4Address,
    ipv6Address,
    ipv6Prefix: prefix?.ok === true ? prefix.value : undefined,
    bandwidth,
    nameServers,
    firewall: firewallFromWire(network.firewall, `${pointer}/firewall`, complaints),
  })
}

/** Translates a change of a network in the same way. */
export function networkChangeFromWire(body: SetNetworkWire, complaints: Complaint[]): SetNetwork {
  const present = Object.fromEntries(
    Object.entries(body).filter(([, value]) => value !== null),
  ) as CreateNetworkWire
  return {
    ...networkFromWire(present, '', complaints),
    ...(body.mac_address === null ? { macAddress: null } : {}),
    ...(body.ipv4_address === null ? { ipv4Address: null } : {}),
    ...(body.ipv6_address === null ? { ipv6Address: null } : {}),
    ...(body.ipv6_prefix === null ? { ipv6Prefix: null } : {}),
    ...(isNoLimit(body.bandwidth) ? { bandwidth: null } : {}),
    ...(body.name_servers === null ? { nameServers: null } : {}),
    ...(isNoFirewall(body.firewall) ? { firewall: null } : {}),
  }
}

const isNoLimit = (bandwidth: SetNetworkWire['bandwidth']): boolean =>
  bandwidth !== undefined && bandwidthFromWire(bandwidth ?? undefined) === undefined

const isNoFirewall = (firewall: SetNetworkWire['firewall']): boolean =>
  firewall === null || (firewall !== undefined && Object.keys(firewall).length === 0)

/** Returns one value for "no limits", however the request writes it. */
function bandwidthFromWire(bandwidth: CreateNetworkWire['bandwidth']): CreateNetwork['bandwidth'] {
  const { receive_mbit_per_second: receive, transmit_mbit_per_second: transmit } = bandwidth ?? {}
  if (receive === undefined && transmit === undefined) return undefined
  return given({ receiveMbitPerSecond: receive, transmitMbitPerSecond: transmit })
}

function firewallFromWire(
  firewall: FirewallWire | undefined,
  pointer: string,
  complaints: Complaint[],
): CreateNetwork['firewall'] {
  if (firewall === undefined || isNoFirewall(firewall)) return undefined
  const inbound = firewall.inbound?.map((rule, index): InboundRule => {
    const place = `${pointer}/inbound/${index}`
    const traffic = trafficFromWire(rule, place, complaints)
    const sources = networksFromWire(rule.sources, `${place}/sources`, complaints)
    return { ...traffic, ...given({ sources }) }
  })
  const outbound = firewall.outbound?.map((rule, index): OutboundRule => {
    const place = `${pointer}/outbound/${index}`
    const traffic = trafficFromWire(rule, place, complaints)
    const destinations = networksFromWire(rule.destinations, `${place}/destinations`, complaints)
    return { action: rule.action, ...traffic, ...given({ destinations }) }
  })
  return given({ inbound, outbound })
}

function trafficFromWire(
  rule: RuleWire,
  pointer: string,
  complaints: Complaint[],
): Pick<InboundRule, 'protocol' | 'ports'> {
  const { protocol } = rule
  if (rule.ports !== undefined && protocol !== 'tcp' && protocol !== 'udp') {
    const detail = `are for tcp and udp; ${protocol} has none`
    complaints.push({ pointer: `${pointer}/ports`, code: 'not_allowed', detail })
  }
  const ports = rule.ports?.map((text, index) => portsFromWire(text, `${pointer}/ports/${index}`, complaints))
  return { protocol, ...given({ ports }) }
}

const networksFromWire = (
  networks: readonly string[] | undefined,
  pointer: string,
  complaints: Complaint[],
): readonly string[] | undefined =>
  networks?.map((text, index) => {
    const parsed = parseNetwork(text)
    if (parsed.ok) return parsed.value
    complaints.push({ pointer: `${pointer}/${index}`, code: 'malformed', detail: parsed.error })
    return text
  })

function portsFromWire(text: string, pointer: string, complaints: Complaint[]): PortRange {
  const [first = 0, last = first] = text.split('-').map(Number)
  if (first < 1 || last > 65_535 || first > last) {
    const detail = 'must be a port from 1 to 65535, or a range of them from low to high'
    complaints.push({ pointer, code: 'out_of_range', detail })
  }
  return { first, last }
}

export const computeFromWire = fromWire<CreateVmWire['compute'], Compute>()({})

export const diskFromWire = fromWire<CreateVmWire['disk'], Disk>()({})

/** Takes the members one by one, because the body of a resize has others beside them. */
export const computeChangeFromWire = ({
  cpu_millicores,
  memory_mib,
  sleep_after_idle_seconds,
  wake,
}: SetComputeWire): ComputeChange => ({
  ...computeFromWire({ cpu_millicores, memory_mib, sleep_after_idle_seconds }),
  ...given({ wake }),
})

export const diskChangeFromWire = ({ size_mib, iops_max, mib_per_second_max }: SetDiskWire): ChangeOf<Disk> =>
  given({ sizeMib: size_mib, iopsMax: iops_max, mibPerSecondMax: mib_per_second_max })
