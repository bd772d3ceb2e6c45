import type { Brand } from '../../lib/brand.ts'

/** Chosen by the controller, one for each try to move a VM; has the same form as a VM's id. */
export type MigrationId = Brand<string, 'MigrationId'>

/** The common name of a host's node certificate. */
export type NodeName = Brand<string, 'NodeName'>

/** At most 64 characters, the bound of X.509 (RFC 5280, ub-common-name). */
export const NODE_NAME_PATTERN = '^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$'

const nodeName = new RegExp(NODE_NAME_PATTERN)

/** Returns the name if `text` is one, otherwise undefined. */
export const parseNodeName = (text: string): NodeName | undefined =>
  nodeName.test(text) ? (text as NodeName) : undefined

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
