import { Type } from 'typebox'
import { given } from '../../lib/given.ts'
import { limits } from '../../config/limits.ts'
import { GUEST_POWERS } from '../../core/migration/departure.ts'
import { exampleManifest } from './examples.ts'
import { migrationIdSchema, modeSchema, stageSchema } from './migration.ts'
import { networkSchema } from './network.ts'
import { sshKeysSchema, userDataSchema } from './requests.ts'
import { FINGERPRINT_PATTERN, SSH_KEY_PATTERN, time, timeSchema } from './values.ts'
import {
  computeMembers,
  desiredMembers,
  diskMembers,
  metadataMembers,
  monitorKindSchema,
  vmIdSchema,
} from './vm.ts'
import { computeToWire, desiredToWire, diskToWire, networkToWire } from './vm-to-wire.ts'
import type { Manifest, MovingVm } from '../../core/vm/manifest.ts'
import type { Static } from 'typebox'
import type { SaveForm } from '../../core/world/saved-state.ts'

export const SAVE_FORMS = ['mapped', 'stream', 'backing'] as const satisfies readonly SaveForm[]

/** A name or a version of a program, or a name of a processor or of its feature. */
const nameSchema = (of: { readonly description?: string; readonly examples?: readonly string[] } = {}) =>
  Type.String({ maxLength: limits.manifestNameCharactersMax, ...of })

/** Members that name the monitor of a guest. */
export const monitorNames = {
  program: nameSchema({ examples: ['qemu-system-x86_64'] }),
  version: nameSchema({ description: 'As the monitor reports it.', examples: ['10.0.2'] }),
  accelerator: nameSchema({ description: '`kvm`, or `tcg` for emulation.', examples: ['kvm'] }),
  format: Type.Optional(
    nameSchema({
      description: 'Format of its saved states, if it numbers them apart from its releases.',
      examples: ['10.0.0'],
    }),
  ),
}

const monitorSchema = Type.Object(
  {
    ...monitorNames,
    form: Type.Enum(SAVE_FORMS, {
      type: 'string',
      description:
        'The form of saved memory. `mapped`: each page has its own place. `stream`: pages follow one another. `backing`: all of it, which the monitor goes on reading.',
    }),
  },
  { description: 'The monitor that runs or saved the guest. The memory can be read only by one like it.' },
)

const processorSchema = Type.Object(
  {
    vendor: nameSchema({ examples: ['GenuineIntel'] }),
    features: Type.Array(nameSchema(), {
      maxItems: limits.processorFeaturesMax,
      examples: [['fpu', 'avx2']],
    }),
  },
  { description: 'The processor that the guest sees. It can continue only on one that has all of it.' },
)

const movingVmSchema = Type.Object(
  {
    desired: Type.Object(desiredMembers),
    monitor: monitorKindSchema,
    ...metadataMembers,
    created_at: { ...timeSchema, description: "A part of the guest's instance id on its seed disk." },
    request: Type.String({
      maxLength: limits.bodyBytesMax,
      description: 'The request that created the VM, without its URLs: the same request creates nothing.',
    }),
    user_data: Type.Optional({ ...userDataSchema, description: 'As in the request.' }),
    ssh_authorized_keys: { ...sshKeysSchema, description: 'As in the request.' },
    ssh_host_key: Type.Optional(
      Type.String({
        pattern: FINGERPRINT_PATTERN,
        description: 'Fingerprint that is pinned for ssh consoles.',
        examples: ['SHA256:uNiVztksCsDhcc0u9e8BrBYn1tYcoFTCqfEVcC1WbC0'],
      }),
    ),
    daemon_ssh_key: Type.String({
      pattern: SSH_KEY_PATTERN,
      maxLength: limits.sshKeyBytesMax,
      description: 'The public key of the daemon that made the seed disk, which must not change.',
    }),
    last_traffic_at: Type.Optional(timeSchema),
    keep_awake_until: Type.Optional(timeSchema),
    exit_streak: Type.Integer({
      minimum: 0,
      maximum: limits.movedCountMax,
      description: 'Exits in a row, each soon after its start.',
    }),
    ended: Type.Optional(
      Type.Boolean({
        description: 'The guest has ended for good by its `restart_policy`, and stays so at the destination.',
      }),
    ),
  },
  {
    description:
      'All that belongs to the VM, and not to its host. It carries user data and keys: it must not be logged.',
  },
)

/** Answers are open: later versions may add members, and a client must ignore unknown ones. */
export const manifestSchema = Type.Object(
  {
    migration_id: migrationIdSchema,
    vm_id: vmIdSchema,
    stage: stageSchema,
    mode: modeSchema,
    power: Type.Enum(GUEST_POWERS, {
      type: 'string',
      description: 'How the guest lives now; from the handover on, how it lived before.',
    }),
    monitor: monitorSchema,
    processor: processorSchema,
    compute: Type.Object(computeMembers),
    disk: Type.Object(diskMembers),
    network: Type.Optional(networkSchema),
    expires_at: Type.Optional({
      ...timeSchema,
      description: 'This host withdraws the offer at this time, unless the VM was released before.',
    }),
    vm: movingVmSchema,
  },
  {
    description: 'A VM that this host offers: what a destination must know before anything moves.',
    examples: [exampleManifest],
  },
)

export type ManifestWire = Static<typeof manifestSchema>
type MovingVmWire = Static<typeof movingVmSchema>

/** Translates an offered VM for the host that may take it. */
export const manifestToWire = ({ network, ...manifest }: Manifest): ManifestWire => ({
  migration_id: manifest.migrationId,
  vm_id: manifest.vmId,
  stage: manifest.stage,
  mode: manifest.mode,
  power: manifest.power,
  monitor: {
    program: manifest.monitor.program,
    version: manifest.monitor.version,
    accelerator: manifest.monitor.accelerator,
    ...given({ format: manifest.monitor.format }),
    form: manifest.monitor.form,
  },
  processor: { vendor: manifest.processor.vendor, features: [...manifest.processor.features] },
  compute: computeToWire(manifest.compute),
  disk: diskToWire(manifest.disk),
  ...(network === undefined ? {} : { network: networkToWire(network) }),
  ...(manifest.expiresAtMs === undefined ? {} : { expires_at: time(manifest.expiresAtMs) }),
  vm: movingToWire(manifest.vm),
})

const movingToWire = ({ desired, metadata, inputs, ...vm }: MovingVm): MovingVmWire => ({
  desired: desiredToWire(desired),
  monitor: vm.monitor,
  labels: metadata.labels,
  protected: metadata.protected,
  created_at: time(vm.createdAtMs),
  request: inputs.request,
  ssh_authorized_keys: [...inputs.sshAuthorizedKeys],
  daemon_ssh_key: vm.daemonSshKey,
  exit_streak: vm.exitStreak,
  ...given({
    user_data: inputs.userData,
    ssh_host_key: vm.sshHostKey,
    last_traffic_at: vm.lastTrafficAtMs === undefined ? undefined : time(vm.lastTrafficAtMs),
    keep_awake_until: vm.keepAwakeUntilMs === undefined ? undefined : time(vm.keepAwakeUntilMs),
    ended: vm.ended,
  }),
})
