import type { Clock } from './clock.ts'
import type { Consoles } from './consoles.ts'
import type { DiskRounds, IncomingDisks } from './disk-rounds.ts'
import type { Monitors } from './monitor.ts'
import type { Firewall, Taps } from './network.ts'
import type { ObjectStore } from './object-store.ts'
import type { SavedStates } from './saved-states.ts'
import type { SourceHosts } from './source-host.ts'
import type { Staging } from './staging.ts'
import type { Storage } from './storage.ts'
import type { Traffic } from './traffic.ts'
import type { Units } from './units.ts'

/** The host as reconciliation sees it. */
export type Host = {
  readonly units: Units
  readonly consoles: Consoles
  readonly monitors: Monitors
  readonly storage: Storage
  readonly taps: Taps
  readonly firewall: Firewall
  readonly traffic: Traffic
  readonly savedStates: SavedStates
  /** Disks that leave this host, and disks that come to it. */
  readonly rounds: DiskRounds
  readonly incomingDisks: IncomingDisks
  /** Hosts from which VMs come. */
  readonly sourceHosts: SourceHosts
  readonly staging: Staging
  readonly objectStore: ObjectStore
  readonly clock: Clock
  /** Identifies the store that owns this daemon's host objects; units, disks and taps carry it. */
  readonly storeId: string
  /** Id of this boot of the host: /proc/sys/kernel/random/boot_id (random(4)). */
  readonly bootId: string
  /** The daemon's public key, as a line of authorized_keys (sshd(8)); guests get it from their seed disks. */
  readonly sshPublicKey: string
}
