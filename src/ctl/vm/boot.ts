import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne } from './change.ts'
import { keysWords, parseImage, readKeys, readUserData, userDataWords } from './create-arguments.ts'
import { REMOVED } from './settings.ts'
import { WAIT_OPTIONS } from './wait.ts'
import type { Command, Context, Option } from '../command.ts'
import type { paths } from '../../client/schema.d.ts'

type SetSeed = paths['/v1/vms/{id}/seed']['put']['requestBody']['content']['application/json']

const SEED_OPTIONS: readonly Option[] = [
  {
    name: 'user-data',
    value: 'FILE',
    help: 'cloud-config for the guest, - for standard input; none: it has none',
    completes: 'file',
  },
  {
    name: 'ssh-key',
    value: 'FILE',
    many: true,
    help: 'a public key, or several: all that may log in; none: no key may',
    completes: 'file',
  },
]

export const seedCommand: Command = {
  words: ['vm', 'seed'],
  summary: 'change the user data and SSH keys of a stopped VM',
  description:
    'The disk stays. At the next start cloud-init sees another instance: it runs the user data again and makes new host keys. ' +
    'What is not given stays. The VM must be stopped, which throws a saved state away.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...SEED_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --ssh-key ~/.ssh/id_ed25519.pub', 'this key alone; vmhostctl vm stop web-1 --wait comes first'],
    ['web-1 --user-data cloud.yaml', 'other user data, with the keys as they are'],
  ],
  run: async (context) => {
    requireOne(context, SEED_OPTIONS)
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = await givenSeed(context)
    const call = context.client().PUT('/v1/vms/{id}/seed', { params, body })
    return changeVm(context, call, { unshown: seedWords(body) })
  },
}

async function givenSeed(context: Context): Promise<SetSeed> {
  const userData = context.given.text('user-data')
  const files = context.given.texts('ssh-key')
  const noKeys = files.length === 1 && files[0] === REMOVED
  return {
    ...(userData === undefined
      ? {}
      : { user_data: userData === REMOVED ? null : await readUserData(userData, context) }),
    ...(files.length === 0 ? {} : { ssh_authorized_keys: noKeys ? [] : await readKeys(files, context) }),
  }
}

/** Describes the members of the request, which no answer shows. */
const seedWords = ({ ssh_authorized_keys: keys, user_data: userData }: SetSeed): string =>
  [
    ...(keys === undefined ? [] : [keysWords(keys)]),
    ...(userData === undefined ? [] : [userDataWords(userData)]),
  ].join(' and ')

export const rebuildCommand: Command = {
  words: ['vm', 'rebuild'],
  summary: 'make the root disk of a stopped VM again, from another image',
  description:
    'The VM loses the disk that it has, once the new one is complete. At the next start cloud-init sees another instance: it runs the ' +
    'user data again and makes new host keys. The VM must be stopped, which throws a saved state away.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  secondOperand: { placeholder: 'ROOTFS', completes: 'file' },
  options: [...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    [
      'web-1 https://images.example.net/root.img#sha256=DIGEST --wait',
      'vmhostctl vm stop web-1 --wait comes first',
    ],
  ],
  run: async (context) => {
    const { operand: id, secondOperand: text } = context.given
    const params = { path: { id }, query: dryRunQuery(context) }
    const body = { rootfs: await parseImage(text, 'ROOTFS') }
    return changeVm(context, context.client().POST('/v1/vms/{id}/rebuild', { params, body }))
  },
}

type SetBoot = paths['/v1/vms/{id}/boot']['put']['requestBody']['content']['application/json']

const BOOT_OPTIONS: readonly Option[] = [
  { name: 'kernel', value: 'IMAGE', help: 'URL#sha256=DIGEST, or a path on the host', completes: 'file' },
  {
    name: 'initrd',
    value: 'IMAGE',
    help: 'URL#sha256=DIGEST, or a path on the host; none: no initrd',
    completes: 'file',
  },
  { name: 'kernel-arguments', value: 'TEXT', help: 'appended to those of the host; none: nothing is' },
]

export const bootCommand: Command = {
  words: ['vm', 'boot'],
  summary: 'change kernel, initrd and kernel arguments of a stopped VM',
  description:
    'The disk stays, and what is not given too. The VM must be stopped, which throws a saved state away. --wait ends when the images ' +
    'are on the host.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...BOOT_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --kernel /srv/images/vmlinuz --initrd none', 'vmhostctl vm stop web-1 --wait comes first'],
    ['web-1 --kernel-arguments quiet', 'other arguments for the same kernel'],
  ],
  run: async (context) => {
    requireOne(context, BOOT_OPTIONS)
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = await givenBoot(context)
    return changeVm(context, context.client().PUT('/v1/vms/{id}/boot', { params, body }))
  },
}

async function givenBoot({ given }: Context): Promise<SetBoot> {
  const [kernel, initrd, text] = [given.text('kernel'), given.text('initrd'), given.text('kernel-arguments')]
  return {
    ...(kernel === undefined ? {} : { kernel: await parseImage(kernel, '--kernel') }),
    ...(initrd === undefined
      ? {}
      : { initrd: initrd === REMOVED ? null : await parseImage(initrd, '--initrd') }),
    ...(text === undefined ? {} : { kernel_arguments: text === REMOVED ? null : text }),
  }
}
