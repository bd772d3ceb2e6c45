import type { MacAddress, Sha256 } from './ids.ts'
import type { Offer } from './migration/offer.ts'

export type DesiredPower = 'running' | 'stopped' | 'paused'

export type Compute = {
  /** 1000 = one core; 100 to 32000. */
  readonly cpuMillicores: number
  readonly memoryMib: number
  /** 0 disables automatic sleep. */
  readonly sleepAfterIdleSeconds: number
  /** The VM's memory stays promised while it sleeps, whatever the ratio of the host. */
  readonly wake?: 'guaranteed'
}

export type Image = {
  readonly rootfsSha256: Sha256
  readonly kernelSha256: Sha256
  readonly initrdSha256?: Sha256
  /** Appended to the arguments the host gives the kernel. */
  readonly kernelArguments?: string
  /** Counts changes of kernel and initrd. Absent: they are those of the creation. */
  readonly bootRevision?: number
  /** Number of the rebuild that makes the root disk. Absent: the disk is that of the creation. */
  readonly rebuild?: number
}

/** Upper bounds for a VM's disk, reads and writes together; an absent member is not bounded. */
export type DiskLimits = {
  readonly iopsMax?: number
  readonly mibPerSecondMax?: number
}

export type Disk = DiskLimits & { readonly sizeMib: number }

export const diskLimitsOf = ({ sizeMib: _size, ...limits }: Disk): DiskLimits => limits

/**
 * Upper bounds as the guest sees them, including headers from the Ethernet header on; an absent member is not bounded.
 */
export type Bandwidth = {
  readonly receiveMbitPerSecond?: number
  readonly transmitMbitPerSecond?: number
}

/** Ports from `first` to `last`, both included. */
export type PortRange = { readonly first: number; readonly last: number }

/**
 * Connections that others may open to a guest. `icmp` is ICMP to an IPv4 address and ICMPv6 to an IPv6 address. Only
 * tcp and udp have ports; absent means any port. Sources are networks in canonical CIDR form, of both families mixed;
 * absent means any source. An empty list of either lets nothing in.
 */
export type InboundRule = {
  readonly protocol: 'tcp' | 'udp' | 'icmp' | 'any'
  readonly ports?: readonly PortRange[]
  readonly sources?: readonly string[]
}

/**
 * Connections that a guest may or may not open to others. The first rule that is about a connection decides. Protocol
 * and ports as in {@link InboundRule}; destinations are networks like sources there, and absent means any.
 */
export type OutboundRule = {
  readonly action: 'allow' | 'deny'
  readonly protocol: InboundRule['protocol']
  readonly ports?: readonly PortRange[]
  readonly destinations?: readonly string[]
}

export type Network = {
  readonly macAddress: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
  /** A further network that the host routes to the guest, by way of its IPv6 address; canonical CIDR form. */
  readonly ipv6Prefix?: string
  readonly bandwidth?: Bandwidth
  /** Addresses that the guest learns from its seed, of both families mixed. Absent: none; never empty. */
  readonly nameServers?: readonly string[]
  readonly firewall?: Firewall
}

/** Returns the address by which the host reaches the guest: IPv4, else IPv6. */
export const guestAddress = (
  network: Pick<Network, 'ipv4Address' | 'ipv6Address'> | undefined,
): string | undefined => network?.ipv4Address ?? network?.ipv6Address

/** Rules for connections to and from a guest. Replies always pass, in both directions. */
type Firewall = {
  /** Connections that others may open to the guest. Absent: as the host is configured. */
  readonly inbound?: readonly InboundRule[]
  /**
   * Rules for what the guest opens to others. What no rule is about is allowed, but for what is closed to all guests.
   */
  readonly outbound?: readonly OutboundRule[]
}

/**
 * The question that shows whether a guest is ready. It goes to the IPv4 address of the guest, else to its IPv6 address.
 */
export type ReadinessCheck = {
  /** `tcp`: the port takes a connection. `http`: it also answers a GET with a status from 200 to 399. */
  readonly protocol: 'tcp' | 'http'
  readonly port: number
  /** For `http`, with its query; `/` if absent. */
  readonly path?: string
}

export const RESTART_POLICIES = ['always', 'on_failure', 'never'] as const
export type RestartPolicy = (typeof RESTART_POLICIES)[number]

/** Says what follows from the end of a guest, and from a stop. */
export type ExitPolicy = {
  readonly restartPolicy: RestartPolicy
  /** Seconds from the end or the stop until the VM is deleted; absent: it is not. */
  readonly deleteAfterSeconds?: number
  /** The VM is deleted when its guest ended by itself and is not started again. */
  readonly deleteOnExit?: true
}

/** The state that the controller asked for. URLs and user data are kept elsewhere, so they never reach a response. */
export type Desired = {
  readonly power: DesiredPower
  readonly compute: Compute
  readonly disk: Disk
  readonly image: Image
  /** Absent: the VM has no network device. */
  readonly network?: Network
  /** Absent: the guest is ready when its agent is seen. */
  readonly readiness?: ReadinessCheck
  /**
   * Says what follows from the end of the guest, and from a stop. Absent: a guest that ended is always started again.
   */
  readonly exit?: ExitPolicy
  /** Number of the instance that cloud-init sets up. Absent: the first, 1. */
  readonly instance?: number
  /** Present if a node may take the VM. How far that is, the departure of the record says. */
  readonly migration?: Offer
}

export type ImageRole = 'rootfs' | 'kernel' | 'initrd'

/** Returns the images that a VM needs, each with its role. */
export function imagesOf(image: Image): readonly { readonly role: ImageRole; readonly sha256: Sha256 }[] {
  const images: { role: ImageRole; sha256: Sha256 }[] = [
    { role: 'kernel', sha256: image.kernelSha256 },
    { role: 'rootfs', sha256: image.rootfsSha256 },
  ]
  if (image.initrdSha256 !== undefined) images.push({ role: 'initrd', sha256: image.initrdSha256 })
  return images
}

/**
 * Returns the number of the instance after this one. cloud-init sets the guest up again when it sees another instance.
 */
export const nextInstance = ({ instance = 1 }: Pick<Desired, 'instance'>): number => instance + 1

/** Returns the guest vCPUs for a CPU share: one for each started core. */
export const vcpusOf = (compute: Pick<Compute, 'cpuMillicores'>): number =>
  Math.ceil(compute.cpuMillicores / 1000)
