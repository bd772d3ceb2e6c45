import type { Brand } from '../../lib/brand.ts'

/** Chosen by the controller, one for each try to move a VM; has the same form as a VM's id. */
export type MigrationId = Brand<string, 'MigrationId'>

/** The common name of a host's node certificate. */
export type NodeName = Brand<string, 'NodeName'>

/** `live`: the guest moves with its memory. `cold`: the guest is stopped, and its disk moves. */
export type MigrationMode = (typeof MIGRATION_MODES)[number]
export const MIGRATION_MODES = ['live', 'cold'] as const

/** Permission for one node to take a VM from this host. A part of desired state. */
export type Offer = {
  readonly id: MigrationId
  readonly node: NodeName
  readonly mode: MigrationMode
  /** The host withdraws the offer at this time, unless the VM was released before. Milliseconds since the epoch. */
  readonly expiresAtMs: number
}
