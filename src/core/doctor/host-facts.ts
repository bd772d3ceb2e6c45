import type { KvmJudgement, MonitorOffers } from '../monitor/choose-monitor.ts'
import type { VmId } from '../ids.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'

/** A fact that was read, or why it was not. */
export type Fact<T> =
  | { readonly known: true; readonly value: T }
  | { readonly known: false; readonly because: string }

export type CertificateFact = {
  /** E.g. `server`. */
  readonly name: string
  readonly path: string
  /** Whether it may sign others. */
  readonly isAuthority: boolean
  /** Milliseconds since the epoch. */
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** The revocation lists of a listener. */
export type RevocationFact = {
  readonly listener: string
  readonly path: string
  /** The reason if the daemon cannot use them. */
  readonly lists: Fact<
    readonly {
      readonly issuer: string
      readonly revoked: number
      /** When the next list is due; undefined if the list does not say. */
      readonly nextUpdateMs: number | undefined
    }[]
  >
  /** Names of authorities that are trusted, and have no list. */
  readonly withoutList: readonly string[]
}

/** The records of the state directory. */
export type RecordsFact = {
  readonly schemaVersion: number
  /** The newest version that this build can read. */
  readonly schemaVersionMax: number
  /** The newest copy of records that this build can read; absent unless these are newer, or if there is none. */
  readonly copy?: string
  /** The pool that the records are of; absent until a daemon has found one. */
  readonly poolId?: string
}

/** Why records cannot be read: what is in them, another process that has locked them, or the rights of this one. */
export type RecordsFault = 'damaged' | 'locked' | 'forbidden'

/** Facts about the records, undefined if there are none yet, or why they cannot be read. */
export type RecordsLook =
  | { readonly known: true; readonly value: RecordsFact | undefined }
  | { readonly known: false; readonly because: string; readonly fault?: RecordsFault }

export type PoolFact = {
  readonly directory: string
  readonly poolId: string
  /** Whether its file system shares blocks between files. */
  readonly reflink: boolean
  readonly availableMib: number
}

/** Why a pool cannot be used: it has no room, it can only be read, or there is no marker of a pool. */
export type PoolFault = 'full' | 'read-only' | 'unmarked'

/** Facts about the pool of a directory, or why they cannot be read. */
export type PoolLook =
  | { readonly known: true; readonly value: PoolFact }
  | {
      readonly known: false
      readonly directory: string
      readonly because: string
      readonly fault?: PoolFault
    }

/** VMs that have a disk in the pool and no record. `isMore`: others have a directory there, and were not looked at. */
export type UnrecordedDisks = { readonly ids: readonly VmId[]; readonly isMore: boolean }

/**
 * Whether stored descriptors outlive a stop of the daemon; if not, the reason, and what an operator can do about it.
 */
export type StoreFact =
  | { readonly available: true }
  | { readonly available: false; readonly because: string; readonly remedy: string }

/** The name of a node, or why other hosts do not know it. `fault`: that its authority is not the one of its file. */
export type NodeLook =
  | { readonly known: true; readonly value: string }
  | { readonly known: false; readonly because: string; readonly fault?: 'authority' }

/** The daemon, as systemd and the kernel see it. */
export type DaemonFact = {
  /** `failed`: it ended at its last start or since, also while systemd waits to start it again. */
  readonly state: 'running' | 'starting' | 'stopped' | 'failed'
  /** Whether systemd starts it at a boot. */
  readonly startsAtBoot: boolean
  /**
   * A file of the records that the running daemon has open, and that was removed or replaced. `copy`: where the daemon
   * keeps what it has.
   */
  readonly displaced?: { readonly name: string; readonly copy?: string }
}

/** Facts about a host that decide whether it can run VMs. Versions as the programs print them. */
export type HostFacts = {
  readonly nowMs: number
  readonly configPath: string
  /** The reason if the configuration cannot be used. */
  readonly configuration: Fact<'used'>
  readonly hasConfigFile: boolean
  /** The directory of local images. Absent if none is configured. */
  readonly localImages?: Fact<string>
  /** QEMU as the configuration names it. Absent if it is looked for. */
  readonly qemuProgram?: string
  readonly kernel: string
  readonly systemd: Fact<string>
  /** Names of kernel modules that are loaded, built in, or can be loaded. */
  readonly modules: Fact<ReadonlySet<string>>
  /** Values of the switches for forwarding; a family that the kernel does not have is absent. */
  readonly forwarding: { readonly ipv4?: boolean; readonly ipv6?: boolean }
  /** Devices with an IPv6 default route from a router advertisement that the kernel accepted, and their `accept_ra`. */
  readonly advertisedRoutes: readonly { readonly device: string; readonly acceptRa: number }[]
  /**
   * Whether the routes of all devices without a carrier are skipped; a family that the kernel does not have is absent.
   */
  readonly linkDownIgnored: { readonly ipv4?: boolean; readonly ipv6?: boolean }
  /** Room that the kernel has for the packets of all guests together. A setting that it does not have yet is absent. */
  readonly shared: {
    /** Connections that it tracks, and those of one guest in one direction. */
    readonly connections: { readonly max?: number; readonly perGuest: number }
    /** Memory for fragments, and how long one waits there for the rest of its datagram. */
    readonly fragments: {
      readonly [F in 'ipv4' | 'ipv6']?: { readonly bytes: number; readonly seconds: number }
    }
  }
  /** The reason if the kernel does not take the table of the firewall. */
  readonly firewall: Fact<'taken'>
  /** Tables of other programs that drop what the host forwards, and have no rule about devices of guests. */
  readonly forwardDrops: Fact<readonly string[]>
  /** Controllers of the unified hierarchy. */
  readonly controllers: Fact<readonly string[]>
  readonly monitors: MonitorOffers
  readonly kvm: KvmJudgement
  /** The reason if the program cannot be run or is too old. */
  readonly monitorVersions: { readonly [K in MonitorKind]: Fact<string> }
  readonly pool: PoolLook
  readonly records: RecordsLook
  /** Absent if the pool or the records cannot be read, or do not belong together. */
  readonly unrecorded?: Fact<UnrecordedDisks>
  /** Space for others than root, in MiB, by directory. */
  readonly room: readonly {
    readonly what: 'state' | 'run'
    readonly directory: string
    readonly availableMib: Fact<number>
  }[]
  readonly memory: Fact<{ readonly totalMib: number; readonly reserveMib: number }>
  readonly diskReserveMib: number
  /** The address at which each listener would be, or why it cannot be bound; `table` is that of the configuration. */
  readonly listeners: readonly {
    readonly listener: string
    readonly table: string
    readonly address: string
    readonly boundAt: Fact<string>
  }[]
  /** Whether the key with which the daemon logs in to guests is there; the reason if the daemon refuses it. */
  readonly sshKey: Fact<'fits' | 'absent'>
  /** Paths of private keys that every user of this host can read. */
  readonly readableKeys: Fact<readonly string[]>
  /** The reason if the files of a listener cannot be used together. */
  readonly tlsFiles: readonly { readonly listener: string; readonly files: Fact<'fit'> }[]
  /**
   * The name by which other hosts know this one; the reason if its certificate does not show that. Absent without a
   * listener for them, or if the certificate cannot be read.
   */
  readonly node?: NodeLook
  /** Absent without a file of further authorities for object stores. */
  readonly extraAuthorities?: Fact<number>
  /** Each certificate of each file. */
  readonly certificates: readonly CertificateFact[]
  readonly revocations: readonly RevocationFact[]
  /** Whether a time server sets the clock. */
  readonly clockIsSet: Fact<boolean>
  readonly descriptorStore: Fact<StoreFact>
  /** Absent if the daemon is not installed. */
  readonly daemon?: Fact<DaemonFact>
}
