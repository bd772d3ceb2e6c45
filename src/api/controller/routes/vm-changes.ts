import { Type } from 'typebox'
import { createVm } from '../../../commands/vm/create-vm.ts'
import { deleteVm } from '../../../commands/vm/delete-vm.ts'
import { setMetadata } from '../../../commands/vm/set-metadata.ts'
import { rebootVm, setPower } from '../../../commands/vm/set-power.ts'
import { keepAwake } from '../../../commands/vm/wake-vm.ts'
import { given } from '../../../lib/given.ts'
import { closed } from '../../../lib/schema-check.ts'
import { setExit } from '../../../commands/vm/reshape.ts'
import { exitChangeFromWire } from '../../wire/exit.ts'
import { createFromWire } from '../../wire/vm-from-wire.ts'
import { ref } from '../../wire/named.ts'
import { invalidRequest } from '../../listener/validation.ts'
import {
  ADMISSION_CODES,
  dryRun,
  LEAVING_CODES,
  mutate,
  mutationSchema,
  mutationSchemaWith,
} from './mutation.ts'
import { goneAnswer } from '../../listener/answers.ts'
import { contextOf } from './vm-parts.ts'
import { versionsOf } from '../versions.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmWire } from '../../wire/vm.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the life of a VM: creation, power, deletion, and what the controller notes about it. */
export function vmChangeRoutes(app: App, dependencies: ApiDependencies): void {
  putVm(app, dependencies)
  removeVm(app, dependencies)
  putPower(app, dependencies)
  postReboot(app, dependencies)
  putMetadata(app, dependencies)
  putKeepAwake(app, dependencies)
  putExit(app, dependencies)
}

function putVm(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...mutationSchema(...ADMISSION_CODES, 'url_not_allowed', 'disk_too_small', 'sleep_needs_network'),
    operationId: 'createVm',
    summary: 'Create a VM',
    description:
      'The same request again returns the existing VM. URLs are not compared: a ' +
      'repeat with fresh ones replaces those that were stored. A different request for the same id is answered with 409 `conflict`.',
    body: ref('CreateVm'),
  }
  app.put('/v1/vms/:id', { schema }, async (request, reply): Promise<VmWire> => {
    const create = createFromWire(request.body)
    if (!create.ok) throw invalidRequest('body', create.error)
    return mutate({ request, reply, dependencies, creates: true }, (context, id) =>
      createVm(context, id, create.value),
    )
  })
}

const sourceLost = Type.Optional(
  Type.Boolean({
    description:
      'Deletes a VM that is here as a whole and waits for its release, because its source is lost for good. If the source lives, ' +
      'the guest goes on there, or is lost if it was released already. Any other VM is refused with `source_not_lost`.',
    default: false,
  }),
)

function removeVm(app: App, dependencies: ApiDependencies): void {
  const { response, ...others } = mutationSchema('vm_protected', 'vm_arriving', 'source_not_lost')
  const schema = {
    ...others,
    operationId: 'deleteVm',
    summary: 'Delete a VM',
    description:
      'Stops the VM hard and removes everything of it from the host. GET answers 404 when that is done. Safe to repeat: if there is no ' +
      'such VM, the answer is 204.',
    querystring: Type.Object({ ...dryRun, source_lost: sourceLost }, closed),
    response: { ...response, 204: goneAnswer('VM') },
  }
  app.delete('/v1/vms/:id', { schema }, async (request, reply) => {
    const { store } = contextOf(dependencies)
    if (store.vms.get(request.params.id as VmId) !== undefined)
      return mutate({ request, reply, dependencies }, (context, id) =>
        deleteVm(context, id, { sourceLost: request.query.source_lost }),
      )
    request.audited = { before: versionsOf(undefined), outcome: 'unchanged' }
    // The deletion of its record may not be on the disk yet.
    await store.flushed()
    return reply.code(204).send()
  })
}

function putPower(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...mutationSchema(
      'not_found',
      'vm_deleting',
      ...LEAVING_CODES,
      'console_places_exhausted',
      'capacity_unknown',
      'systemd_unavailable',
    ),
    operationId: 'setVmPower',
    summary: 'Set the desired power state',
    description:
      'Any state can follow any other. From `stopped` to `paused`, the VM is started paused. `running` wakes a VM that sleeps. ' +
      'That is a change even if `running` was desired before: it raises a generation, which is reached when the guest is ' +
      'back. The same request again while the wake is under way changes nothing. `stopped` discards saved state, and ' +
      'is the remedy if that cannot be used. With `grace_seconds`, `stopped` asks the guest to end first, and wakes a VM that sleeps for it; ' +
      'a second request without them stops it at once. An accepted stop is carried out before any later start. A request for the power that ' +
      'is desired already changes nothing; if `observed.fault` is present, the daemon tries again at once. ' +
      'Only a guest that ended for good is started again by it.',
    body: ref('SetPower'),
  }
  app.put('/v1/vms/:id/power', { schema }, async (request, reply): Promise<VmWire> => {
    const { state, grace_seconds: graceSeconds } = request.body
    if (graceSeconds !== undefined && state !== 'stopped')
      throw invalidRequest('body', [
        { pointer: '/grace_seconds', code: 'not_allowed', detail: 'may only come with the state stopped' },
      ])
    return mutate({ request, reply, dependencies }, (context, id) =>
      setPower(context, id, state, given({ graceSeconds })),
    )
  })
}

function postReboot(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...mutationSchema('not_found', 'vm_deleting', 'vm_stopped', ...LEAVING_CODES),
    operationId: 'rebootVm',
    summary: 'Reboot a VM',
    description:
      'Ends the guest and boots it again, under one generation. With `grace_seconds` the guest is asked to end first, and a VM ' +
      'that sleeps is woken for it; without, it ends at once and what was saved is discarded. The same request while a reboot is ' +
      'under way changes nothing, unless it asks for an earlier end. Once that is done, it reboots the VM again: send `If-Match` if you ' +
      'may have to repeat it. The session of the serial console ends with the guest, and another begins.',
    body: ref('Reboot'),
  }
  app.post('/v1/vms/:id/reboot', { schema }, async (request, reply): Promise<VmWire> => {
    const { grace_seconds: graceSeconds } = request.body
    return mutate({ request, reply, dependencies }, (context, id) =>
      rebootVm(context, id, given({ graceSeconds })),
    )
  })
}

function putMetadata(app: App, dependencies: ApiDependencies): void {
  const accepted = 'Stored, and complete: the revision rises, and the generations stay.'
  const schema = {
    ...mutationSchemaWith(accepted, 'not_found', 'vm_deleting', 'vm_migrating'),
    operationId: 'setVmMetadata',
    summary: 'Set labels and protection',
    description:
      'They need no work on the host: the revision rises, and the generations stay. While a migration of the VM is not decided, ' +
      'they are refused: the destination has read them already.',
    body: ref('SetMetadata'),
  }
  app.put('/v1/vms/:id/metadata', { schema }, async (request, reply): Promise<VmWire> => {
    return mutate({ request, reply, dependencies }, (context, id) =>
      setMetadata(context, id, given(request.body)),
    )
  })
}

function putKeepAwake(app: App, dependencies: ApiDependencies): void {
  const accepted =
    'Stored: the revision rises, and the generations stay. `observed.state` says when a VM that sleeps is awake.'
  const schema = {
    ...mutationSchemaWith(accepted, 'not_found', 'vm_deleting', ...LEAVING_CODES),
    operationId: 'keepVmAwake',
    summary: 'Keep a VM awake for a while',
    description:
      'For work without traffic, such as a job in the guest. Until that time the VM does not fall asleep, and if it sleeps, the ' +
      'request wakes it. Desired state stays: the revision rises, and the generations stay. The newest request replaces the ' +
      'earlier time, and `null` ends it. It starts no VM that is stopped.',
    body: ref('KeepAwake'),
  }
  app.put('/v1/vms/:id/keep-awake', { schema }, async (request, reply): Promise<VmWire> => {
    const { until } = request.body
    const untilMs = until === null ? undefined : Date.parse(until)
    return mutate({ request, reply, dependencies }, (context, id) => keepAwake(context, id, untilMs))
  })
}

function putExit(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...mutationSchema('not_found', 'vm_deleting', ...LEAVING_CODES),
    operationId: 'setVmExit',
    summary: 'Set what follows from the end of the guest',
    description:
      'Whether a guest that ended by itself is started again, and when a stopped VM is deleted. A guest that has ended already ' +
      'stays ended until a request for power. A VM that is stopped already is deleted at once if it is due.',
    body: ref('SetExit'),
  }
  app.put('/v1/vms/:id/exit', { schema }, async (request, reply): Promise<VmWire> => {
    return mutate({ request, reply, dependencies }, (context, id) =>
      setExit(context, id, exitChangeFromWire(request.body)),
    )
  })
}
