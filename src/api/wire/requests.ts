import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { limits } from '../../config/limits.ts'
import { exampleCreateVm, exampleSshKey } from './examples.ts'
import { readinessSchema } from './guest.ts'
import { exitMembers } from './exit.ts'
import { orNull } from './or-null.ts'
import { createNetworkSchema } from './network.ts'
import {
  computeMembers,
  diskMembers,
  metadataMembers,
  monitorKindSchema,
  powerSchema,
  sha256Schema,
} from './vm.ts'
import { KERNEL_ARGUMENTS_PATTERN, SSH_KEY_PATTERN, URL_PATTERN } from './values.ts'
import type { Static } from 'typebox'

const imageSchema = Type.Object(
  {
    url: Type.String({
      pattern: URL_PATTERN,
      maxLength: limits.urlBytesMax,
      description:
        'URL to fetch the image from, usually a signed https: URL. `file:` only inside the configured local ' +
        'directory. Stored until the image is fetched; never returned, never logged.',
      examples: ['https://images.example.net/root.img?signature=…'],
    }),
    sha256: sha256Schema,
  },
  closed,
)

const rootfsSchema = {
  ...imageSchema,
  description: 'A disk image, raw or compressed with zstd; `sha256` is the digest of the raw one.',
}

const kernelSchema = { ...imageSchema, description: 'An uncompressed kernel (vmlinux) or bzImage.' }

const kernelArgumentsSchema = Type.String({
  pattern: KERNEL_ARGUMENTS_PATTERN,
  maxLength: limits.kernelArgumentsBytesMax,
  description: 'Appended to the arguments that the host gives the kernel.',
})

export const userDataSchema = Type.String({
  maxLength: limits.userDataBytesMax,
  description: 'Passed unchanged to the guest on a NoCloud seed disk, e.g. cloud-config. Never returned.',
  examples: ['#cloud-config\nhostname: web-1\n'],
})

export const sshKeysSchema = Type.Array(
  Type.String({ pattern: SSH_KEY_PATTERN, maxLength: limits.sshKeyBytesMax }),
  {
    maxItems: limits.sshKeysMax,
    description: 'Passed to the guest on the seed disk. Never returned.',
    examples: [[exampleSshKey]],
  },
)

export const createVmSchema = Type.Object(
  {
    power: powerSchema,
    monitor: Type.Optional({
      ...monitorKindSchema,
      description: 'The monitor that runs the VM, for its whole life. Without it the host chooses.',
    }),
    compute: Type.Object(computeMembers, closed),
    disk: Type.Object(diskMembers, closed),
    image: Type.Object(
      {
        rootfs: rootfsSchema,
        kernel: kernelSchema,
        initrd: Type.Optional(imageSchema),
        kernel_arguments: Type.Optional(kernelArgumentsSchema),
      },
      closed,
    ),
    network: Type.Optional(createNetworkSchema),
    readiness: Type.Optional(readinessSchema),
    ...exitMembers,
    labels: Type.Optional(metadataMembers.labels),
    protected: Type.Optional(metadataMembers.protected),
    user_data: Type.Optional(userDataSchema),
    ssh_authorized_keys: Type.Optional(sshKeysSchema),
  },
  {
    ...closed,
    description: 'A VM to create. The same request again returns the existing VM.',
    examples: [exampleCreateVm],
  },
)

const GRACE =
  'Seconds in which the guest may end by itself: it is asked to, and stopped hard when they are over. 0 is a hard stop at once.'
const graceSchema = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: limits.graceSecondsMax, description, examples: [30] }))

export const setPowerSchema = Type.Object(
  {
    state: powerSchema,
    grace_seconds: graceSchema(`With \`stopped\` only. ${GRACE}`),
  },
  { ...closed, examples: [{ state: 'stopped', grace_seconds: 30 }] },
)

export const rebootSchema = Type.Object(
  { grace_seconds: graceSchema(GRACE) },
  { ...closed, examples: [{ grace_seconds: 30 }] },
)

/** Compute of a request that changes it. */
const computeChange = { ...computeMembers, wake: orNull(computeMembers.wake, 'Not guaranteed if `null`.') }

const WAKE_STAYS = 'Only `wake` may be absent: it stays as it is stored then, and `null` removes it.'

export const setComputeSchema = Type.Object(computeChange, {
  ...closed,
  description: `CPU and memory change only while the VM is stopped; the idle timeout in any state. ${WAKE_STAYS}`,
  examples: [{ cpu_millicores: 2000, memory_mib: 1024, sleep_after_idle_seconds: 600 }],
})

export const resizeSchema = Type.Object(
  { ...computeChange, disk: Type.Object({ size_mib: diskMembers.size_mib }, closed) },
  {
    ...closed,
    description: `Compute and the size of the disk in one request: all members are stored, or none. ${WAKE_STAYS}`,
    examples: [
      { cpu_millicores: 2000, memory_mib: 1024, sleep_after_idle_seconds: 600, disk: { size_mib: 4096 } },
    ],
  },
)

export const setDiskSchema = Type.Object(
  {
    size_mib: Type.Optional(diskMembers.size_mib),
    iops_max: orNull(diskMembers.iops_max, 'Reads and writes per second, together. Not limited if `null`.'),
    mib_per_second_max: orNull(
      diskMembers.mib_per_second_max,
      'Reads and writes together. Not limited if `null`.',
    ),
  },
  {
    ...closed,
    description: 'A member that is absent stays as it is stored, and `null` removes it.',
    examples: [{ size_mib: 4096, iops_max: 500, mib_per_second_max: null }],
  },
)

export const setBootSchema = Type.Object(
  {
    kernel: Type.Optional(kernelSchema),
    initrd: Type.Optional(Type.Union([imageSchema, Type.Null({ description: 'The VM has none.' })])),
    kernel_arguments: Type.Optional(
      Type.Union([kernelArgumentsSchema, Type.Null({ description: 'Nothing is appended.' })]),
    ),
  },
  {
    ...closed,
    description: 'A member that is absent stays as it is stored.',
    examples: [{ kernel: exampleCreateVm.image.kernel, initrd: null, kernel_arguments: 'quiet' }],
  },
)

export const setSeedSchema = Type.Object(
  {
    user_data: Type.Optional(Type.Union([userDataSchema, Type.Null({ description: 'The VM has none.' })])),
    ssh_authorized_keys: Type.Optional({
      ...sshKeysSchema,
      description: 'All keys that may log in, in place of those before. Never returned.',
    }),
  },
  {
    ...closed,
    description: 'A member that is absent stays as it is stored.',
    examples: [{ user_data: '#cloud-config\nhostname: web-1\n', ssh_authorized_keys: [exampleSshKey] }],
  },
)

export const rebuildSchema = Type.Object(
  { rootfs: rootfsSchema },
  { ...closed, examples: [{ rootfs: exampleCreateVm.image.rootfs }] },
)

export const setMetadataSchema = Type.Object(
  {
    labels: Type.Optional({
      ...metadataMembers.labels,
      description: 'All labels, in place of those before.',
    }),
    protected: Type.Optional(metadataMembers.protected),
  },
  {
    ...closed,
    description: 'A member that is absent stays as it is stored.',
    examples: [{ labels: { env: 'prod' } }, { protected: true }],
  },
)

export type SetDiskWire = Static<typeof setDiskSchema>
export type SetComputeWire = Static<typeof setComputeSchema>
export type SetBootWire = Static<typeof setBootSchema>
export type RebuildWire = Static<typeof rebuildSchema>
export type SetSeedWire = Static<typeof setSeedSchema>
export type CreateVmWire = Static<typeof createVmSchema>
