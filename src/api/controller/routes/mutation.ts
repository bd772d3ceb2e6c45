import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { Type } from 'typebox'
import { given } from '../../../lib/given.ts'
import { memberPointer } from '../../../lib/json-pointer.ts'
import { isObject } from '../../../lib/parsed-values.ts'
import { closed } from '../../../lib/schema-check.ts'
import { planToWire } from '../../wire/plan.ts'
import { vmToWire } from '../../wire/vm-to-wire.ts'
import { noteRefusal } from '../../../commands/capacity/note-refusal.ts'
import { checkPreconditions, etagOf, preconditionHeaders } from './preconditions.ts'
import { goneSignal } from '../../listener/answer-end.ts'
import { Refused, Undecided } from '../../listener/refused.ts'
import { BODY_CODES, problems } from '../../listener/answers.ts'
import { acceptedVm, contextOf, params, tags, vmAnswer } from './vm-parts.ts'
import { auditedChange, versionsOf } from '../versions.ts'
import type { FastifyReply } from 'fastify'
import type { Preconditions } from './preconditions.ts'
import type { Audited } from '../../listener/audit.ts'
import type { Accepted, CommandContext, CommandResult } from '../../../commands/context.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmRecord } from '../../../core/vm/record.ts'
import type { ProblemCode } from '../../../core/errors.ts'
import type { VmWire } from '../../wire/vm.ts'
import type { ApiDependencies } from '../dependencies.ts'

const conditions = preconditionHeaders('the VM')

/** The query members that all mutations of a VM share. */
export const dryRun = {
  dry_run: Type.Optional(
    Type.Boolean({
      description:
        'Checks everything and stores nothing. The answer shows what would be stored, and the plan that would follow.',
      default: false,
    }),
  ),
}

/** The schema that all mutations of a VM share; `codes` are the refusals beyond those of every mutation. */
export const mutationSchema = (...codes: readonly ProblemCode[]) =>
  mutationSchemaWith('Stored. The host follows; poll until the generations are equal.', ...codes)

/** Returns the same, with a text of its own for an accepted change. */
export const mutationSchemaWith = (accepted: string, ...codes: readonly ProblemCode[]) => ({
  tags,
  params,
  querystring: Type.Object(dryRun, closed),
  headers: conditions,
  response: {
    200: vmAnswer('Nothing changed: the request equals the desired state. Or the answer to a dry run.'),
    202: acceptedVm(accepted),
    ...problems('state_unwritable', 'precondition_failed', ...BODY_CODES, ...codes),
  },
})

/** Refusals of a change of a VM that moves to another host. */
export const LEAVING_CODES = ['vm_migrating', 'vm_migrated', 'vm_arriving'] as const

/** Refusals of a VM that the host does not have yet. */
export const ADMISSION_CODES = [
  'conflict',
  'vm_deleting',
  'address_in_use',
  'address_not_allowed',
  'host_cordoned',
  'monitor_not_offered',
  'insufficient_capacity',
  'user_ids_exhausted',
  'console_places_exhausted',
  'systemd_unavailable',
  'capacity_unknown',
  'storage_inspection_failed',
  'network_failed',
] as const

type Command = (context: CommandContext, id: VmId) => CommandResult

/** A request and its reply, with only what mutations use. */
type Mutation = {
  readonly request: {
    readonly params: { readonly id: string }
    readonly query: { readonly dry_run?: boolean | undefined }
    readonly headers: Preconditions
    operationId?: string | undefined
    audited?: Audited | undefined
  }
  readonly reply: FastifyReply
  readonly dependencies: ApiDependencies
  /**
   * Set if the VM may be missing; a precondition then cannot hold. For other mutations the command gives a better
   * error.
   */
  readonly creates?: true
}

/** Runs a command and answers: 202 with what was stored, 200 if nothing changed, or the result of a dry run. */
export async function mutate(
  { request, reply, dependencies, creates }: Mutation,
  command: Command,
): Promise<VmWire> {
  const context = contextOf(dependencies)
  const id = request.params.id as VmId
  const before = context.store.vms.get(id)
  request.audited = { before: versionsOf(before) }
  if (before !== undefined || creates === true) checkPreconditions(request.headers, before, 'VM')
  if (request.query.dry_run === true) {
    request.audited = { ...request.audited, ...given({ after: versionsOf(before) }), outcome: 'rehearsed' }
    return rehearse(dependencies, context, { id, before, command, signal: goneSignal(reply) })
  }
  const result = command(answeringFirst(context, dependencies), id)
  if (!result.ok) noteRefusal(context, id, result.error)
  const { record, changed, operationId = record.operationId } = acceptedOf(result)
  request.audited = auditedChange({ before, after: record, changed })
  const flushed = context.store.flushed()
  // Made while the disk works.
  const answer = vmToWire(record, changed ? operationId : undefined)
  await flushed
  reply.code(changed ? 202 : 200).header('etag', etagOf(record))
  if (!changed) return answer
  request.operationId = operationId
  reply.header('location', `/v1/vms/${id}`)
  return answer
}

type Wake = CommandContext['poke']

/**
 * Returns the context with pokes that come after the answer: a pass that begins holds the event loop for milliseconds.
 */
function answeringFirst(context: CommandContext, { log }: Pick<ApiDependencies, 'log'>): CommandContext {
  const afterAnswer =
    (wake: Wake): Wake =>
    (id, reason) => {
      const wakeLater = async (): Promise<void> => {
        // The answer waits for the same flush. If that fails, the answer says so.
        await context.store.flushed().catch(() => {})
        await nextTurn()
        wake(id, reason)
      }
      wakeLater().catch((error: unknown) => log.error({ vm_id: id, error }, 'worker of the VM not woken'))
    }
  return { ...context, poke: afterAnswer(context.poke), notice: afterAnswer(context.notice) }
}

async function rehearse(
  dependencies: ApiDependencies,
  context: CommandContext,
  {
    id,
    before,
    command,
    signal,
  }: {
    readonly id: VmId
    readonly before: VmRecord | undefined
    readonly command: Command
    readonly signal: AbortSignal
  },
): Promise<VmWire> {
  const { store } = context
  const { record, changed, inputs } = store.rehearse(() => {
    const accepted = acceptedOf(command({ ...context, poke: () => {}, notice: () => {} }, id))
    return { ...accepted, inputs: store.vms.inputs(id) }
  })
  const changes = changesBetween(wanted(before), wanted(record))
  const plan = planToWire(await dependencies.plan(record, inputs, signal))
  // Show the desired members as they would be, and all others as they are: the revision was rolled back.
  // A member that the mutation removes is absent from what is laid over, so it must not come from before.
  const { keep_awake_until: _before, ...present } = vmToWire(before ?? record)
  return { ...present, ...changeable(record), dry_run: { changed, changes: [...changes], plan } }
}

/** Returns the members that a mutation can change. */
function changeable(record: VmRecord): Pick<VmWire, 'desired' | 'labels' | 'protected' | 'keep_awake_until'> {
  const { desired, labels, protected: guarded, keep_awake_until } = vmToWire(record)
  return { desired, labels, protected: guarded, ...given({ keep_awake_until }) }
}

/** Returns the changeable members; undefined for a VM under deletion. */
const wanted = (record: VmRecord | undefined): unknown =>
  record === undefined || record.deleting ? undefined : changeable(record)

function acceptedOf(result: CommandResult): Accepted {
  if (result.ok) return result.value
  throw 'known' in result.error ? new Undecided(result.error) : new Refused(result.error)
}

/** One member that differs. A new member has no `from`; a removed member has no `to`. */
type MemberChange = { readonly pointer: string; readonly from?: unknown; readonly to?: unknown }

/** Returns the members in which two JSON values differ. Compares objects at every depth, and lists as a whole. */
function changesBetween(from: unknown, to: unknown, pointer = ''): readonly MemberChange[] {
  if (isDeepStrictEqual(from, to)) return []
  if (!isObject(from) || !isObject(to)) {
    return [{ pointer, ...given({ from, to }) }]
  }
  const names = new Set([...Object.keys(from), ...Object.keys(to)])
  return [...names].flatMap((name) => changesBetween(from[name], to[name], memberPointer(pointer, name)))
}
