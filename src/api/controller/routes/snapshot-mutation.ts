import { snapshotToWire } from '../../wire/snapshot-to-wire.ts'
import { checkPreconditions, etagOf, preconditionHeaders } from './preconditions.ts'
import { Refused } from '../../listener/refused.ts'
import { BODY_CODES, noQuery, problems } from '../../listener/answers.ts'
import { acceptedSnapshot, params, sightOf, snapshotAnswer, tags } from './snapshot-parts.ts'
import { contextOf } from './vm-parts.ts'
import { auditedChange, versionsOf } from '../versions.ts'
import type { FastifyReply } from 'fastify'
import type { Preconditions } from './preconditions.ts'
import type { Audited } from '../../listener/audit.ts'
import type { CommandContext } from '../../../commands/context.ts'
import type { SnapshotResult } from '../../../commands/snapshots/snapshots.ts'
import type { SnapshotId } from '../../../core/snapshots/record.ts'
import type { ProblemCode } from '../../../core/errors.ts'
import type { SnapshotWire } from '../../wire/snapshot.ts'
import type { ApiDependencies } from '../dependencies.ts'

export const conditions = preconditionHeaders('the snapshot')

/** The schema that mutations of a snapshot share; `codes` are the refusals beyond those of every one. */
export const snapshotMutationSchema = (...codes: readonly ProblemCode[]) => ({
  tags,
  params,
  querystring: noQuery,
  headers: conditions,
  response: {
    200: snapshotAnswer('Nothing changed: the snapshot is already like this.'),
    202: acceptedSnapshot('Stored. The host follows; watch `status`.'),
    ...problems('state_unwritable', 'precondition_failed', ...BODY_CODES, 'not_found', ...codes),
  },
})

export type SnapshotMutation = {
  readonly request: {
    readonly params: { readonly id: string }
    readonly headers: Preconditions
    operationId?: string | undefined
    vmId?: string | undefined
    audited?: Audited | undefined
  }
  readonly reply: FastifyReply
  readonly dependencies: ApiDependencies
  /**
   * Set if the snapshot may be missing; a precondition then cannot hold. For other mutations the command gives a better
   * error.
   */
  readonly creates?: true
}

/** Runs a command and answers: 202 with what was stored, or 200 if nothing changed. */
export async function mutateSnapshot(
  { request, reply, dependencies, creates }: SnapshotMutation,
  command: (context: CommandContext, id: SnapshotId) => SnapshotResult,
): Promise<SnapshotWire> {
  const context = contextOf(dependencies)
  const id = request.params.id as SnapshotId
  const before = context.store.snapshots.get(id)
  if (before !== undefined || creates === true) checkPreconditions(request.headers, before, 'snapshot')
  request.vmId = before?.vmId
  request.audited = { before: versionsOf(before) }
  const result = command(context, id)
  if (!result.ok) throw new Refused(result.error)
  const { record, changed, operationId } = result.value
  request.audited = auditedChange({ before, after: record, changed })
  const sight = sightOf(context, record)
  await context.store.flushed()
  reply.code(changed ? 202 : 200).header('etag', etagOf(record))
  if (changed) reply.header('location', `/v1/snapshots/${id}`)
  request.operationId = operationId
  request.vmId = record.vmId
  return snapshotToWire(sight, operationId)
}
