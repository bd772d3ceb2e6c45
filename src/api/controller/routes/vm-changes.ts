import { Type } from 'typebox'
import { createVm } from '../../../commands/create-vm.ts'
import { deleteVm } from '../../../commands/delete-vm.ts'
import { setPower } from '../../../commands/set-power.ts'
import { createFromWire } from '../../wire/create-from-wire.ts'
import { ref } from '../../wire/named.ts'
import { vmToWire } from '../../wire/vm-to-wire.ts'
import { checkIfMatch, etagOf } from '../precondition.ts'
import { Refused } from '../refused.ts'
import { invalidRequest } from '../validation.ts'
import { problems } from './answers.ts'
import { contextOf, noQuery, params, tags, vmAnswer } from './vm-parts.ts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CommandContext, CommandResult } from '../../../commands/context.ts'
import type { VmId } from '../../../core/vm/ids.ts'
import type { VmWire } from '../../wire/vm.ts'
import type { App } from '../app.ts'
import type { ControllerRooms } from '../rooms.ts'

const ifMatch = Type.Object({
  'if-match': Type.Optional(
    Type.String({ description: 'Only if the VM is at this revision: the ETag of an earlier answer.' }),
  ),
})

const taken = {
  200: vmAnswer('Nothing changed: this is what was desired already.'),
  202: vmAnswer('Stored. The host follows; poll until the generations meet.'),
}

/** Changing VMs. Each change is stored and answered; none waits for the host. */
export function vmChangeRoutes(app: App, rooms: ControllerRooms): void {
  putVm(app, rooms)
  removeVm(app, rooms)
  putPower(app, rooms)
}

function putVm(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'createVm',
    tags,
    summary: 'Create a VM',
    description:
      'The same request again answers the VM that is there. URLs are no part of what makes two requests the same: a ' +
      'repeat with fresh ones replaces those that were stored. A different request for the same id is 409 `conflict`.',
    params,
    querystring: noQuery,
    headers: ifMatch,
    body: ref('CreateVm'),
    response: {
      ...taken,
      ...problems(
        'starting_up',
        'conflict',
        'vm_deleting',
        'address_in_use',
        'user_ids_exhausted',
        'precondition_failed',
        'body_too_large',
        'unsupported_media_type',
      ),
    },
  }
  app.put('/v1/vms/:id', { schema }, async (request, reply): Promise<VmWire> => {
    const id = request.params.id as VmId
    const context = contextOf(rooms)
    const create = createFromWire(request.body)
    if (!create.ok) throw invalidRequest('body', create.error)
    checkIfMatch(request.headers['if-match'], context.store.vms.get(id))
    return answerMutation(request, reply, createVm(context, id, create.value))
  })
}

function removeVm(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'deleteVm',
    tags,
    summary: 'Delete a VM',
    description:
      'Stops it hard and removes everything of it from the host. GET answers 404 when that is done.',
    params,
    querystring: noQuery,
    headers: ifMatch,
    response: { ...taken, ...problems('not_found', 'starting_up', 'precondition_failed') },
  }
  app.delete('/v1/vms/:id', { schema }, async (request, reply): Promise<VmWire> => {
    const id = request.params.id as VmId
    const context = contextOf(rooms)
    checkIfMatchOfExisting(request, context, id)
    return answerMutation(request, reply, deleteVm(context, id))
  })
}

function putPower(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'setVmPower',
    tags,
    summary: 'Set the desired power state',
    description: 'From any state to any other. From `stopped` to `paused` the VM is started paused.',
    params,
    querystring: noQuery,
    headers: ifMatch,
    body: ref('SetPower'),
    response: {
      ...taken,
      ...problems(
        'not_found',
        'starting_up',
        'vm_deleting',
        'precondition_failed',
        'body_too_large',
        'unsupported_media_type',
      ),
    },
  }
  app.put('/v1/vms/:id/power', { schema }, async (request, reply): Promise<VmWire> => {
    const id = request.params.id as VmId
    const context = contextOf(rooms)
    checkIfMatchOfExisting(request, context, id)
    return answerMutation(request, reply, setPower(context, id, request.body.state))
  })
}

/** Where there is no VM, the command says so in better words than a precondition. */
function checkIfMatchOfExisting(request: FastifyRequest, context: CommandContext, id: VmId): void {
  const record = context.store.vms.get(id)
  if (record !== undefined) checkIfMatch(request.headers['if-match'], record)
}

function answerMutation(request: FastifyRequest, reply: FastifyReply, result: CommandResult): VmWire {
  if (!result.ok) throw new Refused(result.error)
  const { record, changed } = result.value
  reply.code(changed ? 202 : 200).header('etag', etagOf(record))
  if (!changed) return vmToWire(record)
  request.operationId = record.operationId
  return vmToWire(record, record.operationId)
}
