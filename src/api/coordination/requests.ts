/** The parts that all routes about a migration have. */
import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { migrationIdSchema } from '../wire/migration.ts'
import type { FastifyRequest } from 'fastify'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'
import type { Move } from '../../owners/migration/moves.ts'

export const tags = ['Migrations']
export const idParams = Type.Object({ id: migrationIdSchema }, closed)

/** Faults of the pool that a request about a disk can be answered with. */
export const POOL_FAULTS = [
  'disk_missing',
  'round_lost',
  'storage_inspection_failed',
  'storage_read_only',
  'storage_full',
  'storage_failed',
] as const

/** Returns the migration and the node of a request. */
export const offerOf = ({ params, peerName }: FastifyRequest): Pick<Move, 'id' | 'node'> => ({
  id: (params as { readonly id: MigrationId }).id,
  node: peerName as NodeName,
})

export const moveOf = (request: FastifyRequest, { arrival }: { readonly arrival: string }): Move => ({
  ...offerOf(request),
  arrival: arrival as ArrivalId,
})
