import {
  resize,
  setCompute,
  setDisk,
  setNetwork,
  setReadiness,
  setSeed,
} from '../../../commands/vm/reshape.ts'
import { setBoot } from '../../../commands/vm/set-boot.ts'
import { rebuildVm } from '../../../commands/vm/rebuild-vm.ts'
import { ref } from '../../wire/named.ts'
import { readinessComplaints, readinessFromWire } from '../../wire/guest.ts'
import {
  bootFromWire,
  networkChangeFromWire,
  computeChangeFromWire,
  diskChangeFromWire,
  rebuildFromWire,
  seedFromWire,
} from '../../wire/vm-from-wire.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { LEAVING_CODES, mutate, mutationSchema } from './mutation.ts'
import type { Complaint } from '../../../lib/schema-check.ts'
import type { ProblemCode } from '../../../core/errors.ts'
import type { VmWire } from '../../wire/vm.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/**
 * Serves the shape of a VM: compute, disk and its rebuild, network, boot, seed,
 * and the check whether its guest is ready.
 */
export function vmShapeRoutes(app: App, dependencies: ApiDependencies): void {
  putCompute(app, dependencies)
  putResize(app, dependencies)
  putDisk(app, dependencies)
  putNetwork(app, dependencies)
  putReadiness(app, dependencies)
  putBoot(app, dependencies)
  putSeed(app, dependencies)
  postRebuild(app, dependencies)
}

/** Refusals of a change that may need room on the host. */
const CAPACITY_CODES = [
  'host_cordoned',
  'insufficient_capacity',
  'console_places_exhausted',
  'capacity_unknown',
  'storage_inspection_failed',
  'systemd_unavailable',
] as const
const shapeSchema = (...codes: readonly ProblemCode[]) =>
  mutationSchema('not_found', 'vm_deleting', ...LEAVING_CODES, ...codes)

function putCompute(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema('vm_not_stopped', 'sleep_needs_network', ...CAPACITY_CODES),
    operationId: 'setVmCompute',
    summary: 'Set CPU, memory and idle timeout',
    description:
      'CPU and memory change only while the VM is stopped; a sleeping VM is not stopped. The idle timeout changes in any state; 0 ' +
      'wakes a VM that sleeps.',
    body: ref('SetCompute'),
  }
  app.put('/v1/vms/:id/compute', { schema }, async (request, reply): Promise<VmWire> =>
    mutate({ request, reply, dependencies }, (context, id) =>
      setCompute(context, id, computeChangeFromWire(request.body)),
    ),
  )
}

function putResize(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema('vm_not_stopped', 'disk_shrink', 'sleep_needs_network', ...CAPACITY_CODES),
    operationId: 'resizeVm',
    summary: 'Set CPU, memory, disk and idle timeout',
    description:
      'The host checks both increases, of memory and of disk, before it stores either.  The disk may grow in any state and ' +
      'never shrinks; a running guest sees the growth when `observed.disk.guest_size_mib` follows, otherwise at its next start.',
    body: ref('Resize'),
  }
  app.put('/v1/vms/:id/resize', { schema }, async (request, reply): Promise<VmWire> =>
    mutate({ request, reply, dependencies }, (context, id) =>
      resize(context, id, {
        compute: computeChangeFromWire(request.body),
        diskMib: request.body.disk.size_mib,
      }),
    ),
  )
}

function putDisk(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema('disk_shrink', ...CAPACITY_CODES),
    operationId: 'setVmDisk',
    summary: 'Set size and rate limits of the disk',
    description: 'Possible in any state; the limits take effect on a running VM.',
    body: ref('SetDisk'),
  }
  app.put('/v1/vms/:id/disk', { schema }, async (request, reply): Promise<VmWire> =>
    mutate({ request, reply, dependencies }, (context, id) =>
      setDisk(context, id, diskChangeFromWire(request.body)),
    ),
  )
}

function putNetwork(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema(
      'vm_not_stopped',
      'address_in_use',
      'address_not_allowed',
      'sleep_needs_network',
      ...CAPACITY_CODES,
      'network_failed',
    ),
    operationId: 'setVmNetwork',
    summary: 'Set addresses, bandwidth and firewall',
    description:
      'A member that is absent stays as it is stored; `null` removes it. Bandwidth and firewall change under a running ' +
      'guest; the addresses only while the VM is stopped.',
    body: ref('SetNetwork'),
  }
  app.put('/v1/vms/:id/network', { schema }, async (request, reply): Promise<VmWire> => {
    const complaints: Complaint[] = []
    const network = networkChangeFromWire(request.body, complaints)
    if (complaints.length > 0) throw invalidRequest('body', complaints)
    return mutate({ request, reply, dependencies }, (context, id) => setNetwork(context, id, network))
  })
}

function putReadiness(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...mutationSchema('not_found', 'vm_deleting', ...LEAVING_CODES),
    operationId: 'setVmReadiness',
    summary: 'Set how the host checks that the guest is ready',
    description:
      'Possible in any state. `observed.guest.ready_since` follows the new check alone. A check makes no difference to what the host ' +
      'does with the VM.',
    body: ref('SetReadiness'),
  }
  app.put('/v1/vms/:id/readiness', { schema }, async (request, reply): Promise<VmWire> => {
    const { check } = request.body
    const complaints = check === null ? [] : readinessComplaints('/check', check)
    if (complaints.length > 0) throw invalidRequest('body', complaints)
    const readiness = check === null ? undefined : readinessFromWire(check)
    return mutate({ request, reply, dependencies }, (context, id) => setReadiness(context, id, readiness))
  })
}

function putBoot(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema('vm_not_stopped', 'url_not_allowed'),
    operationId: 'setVmBoot',
    summary: 'Set kernel, initrd and kernel arguments',
    description:
      'Possible only while the VM is stopped; a sleeping VM is not stopped. The disk stays. The host fetches and checks the images at ' +
      'once, and `observed.error` says what is wrong with them. The guest has them from its next start on. The same request again ' +
      'changes nothing; fresh URLs in it replace those that were stored.',
    body: ref('SetBoot'),
  }
  app.put('/v1/vms/:id/boot', { schema }, async (request, reply): Promise<VmWire> => {
    const boot = bootFromWire(request.body)
    if (!boot.ok) throw invalidRequest('body', boot.error)
    return mutate({ request, reply, dependencies }, (context, id) => setBoot(context, id, boot.value))
  })
}

function putSeed(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema('vm_not_stopped'),
    operationId: 'setVmSeed',
    summary: 'Set user data and SSH keys',
    description:
      'Possible only while the VM is stopped; a sleeping VM is not stopped. The disk stays. The guest has them from its next start on, ' +
      'with another instance id: cloud-init runs the user data again, and makes new SSH host keys. So the host forgets the host key that ' +
      'it had pinned for ssh consoles.',
    body: ref('SetSeed'),
  }
  app.put('/v1/vms/:id/seed', { schema }, async (request, reply): Promise<VmWire> => {
    const seed = seedFromWire(request.body)
    if (!seed.ok) throw invalidRequest('body', seed.error)
    return mutate({ request, reply, dependencies }, (context, id) => setSeed(context, id, seed.value))
  })
}

function postRebuild(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...shapeSchema(
      'vm_not_stopped',
      'vm_protected',
      'snapshot_under_way',
      'url_not_allowed',
      'disk_too_small',
      ...CAPACITY_CODES,
    ),
    operationId: 'rebuildVm',
    summary: 'Make the root disk again, from another image',
    description:
      'Possible only while the VM is stopped; a sleeping VM is not stopped. The VM loses the disk that it has, once the image is fetched ' +
      'and checked and the new disk is durable. `observed.rebuild` says when that is done, and `observed.error` why it is not. The new ' +
      'disk has the size of `desired.disk`, and the host must have room for both. The guest boots from it as another instance: cloud-init ' +
      'runs the user data again. The same request again changes nothing until the rebuild is done; a fresh URL in it replaces the one that ' +
      'was stored.',
    body: ref('Rebuild'),
  }
  app.post('/v1/vms/:id/rebuild', { schema }, async (request, reply): Promise<VmWire> => {
    const rootfs = rebuildFromWire(request.body)
    if (!rootfs.ok) throw invalidRequest('body', rootfs.error)
    return mutate({ request, reply, dependencies }, (context, id) => rebuildVm(context, id, rootfs.value))
  })
}
