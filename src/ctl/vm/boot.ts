import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne } from './change.ts'
import { readJsonFile } from '../json-file.ts'
import { usageError } from '../ctl-error.ts'
import { keysWords, parseImage, readKeys, readUserData, userDataWords } from './create-arguments.ts'
import { REMOVED } from './settings.ts'
import { WAIT_OPTIONS } from './wait.ts'
import type { Command, Context, Option } from '../command.ts'
import type { components, paths } from '../../client/schema.d.ts'

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
    help: 'a file with the public keys that may log in, in place of the present ones; none: no key may',
    completes: 'file',
  },
]

export const seedCommand: Command = {
  words: ['vm', 'seed'],
  summary: 'change the user data and SSH keys of a stopped VM',
  description:
    'The disk stays. At the next start cloud-init sees another instance: it runs the user data again and makes new host ' +
    'keys. Options that are not given change nothing. The VM must be stopped, which discards a saved state.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...SEED_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --ssh-key ~/.ssh/id_ed25519.pub', 'this key alone; run vmhostctl vm stop web-1 --wait first'],
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

type Rebuild = components['schemas']['Rebuild']

const REBUILD_FILE_OPTION: Option = {
  name: 'file',
  value: 'FILE',
  help: 'the image as JSON, - for standard input; in place of ROOTFS',
  completes: 'file',
}

const REBUILD_ADVICE =
  'the file is the JSON body of POST /v1/vms/{id}/rebuild: {"rootfs": {"url": "https://…", "sha256": "…"}}'

export const rebuildCommand: Command = {
  words: ['vm', 'rebuild'],
  summary: 'make the root disk of a stopped VM again, from another image',
  description:
    'The VM loses its present disk once the new one is complete. At the next start cloud-init sees another instance: it ' +
    'runs the user data again and makes new host keys. The VM must be stopped, which discards a saved state. Keep a signed ' +
    'URL in a file: a command line is seen by every user of the machine.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  secondOperand: { placeholder: 'ROOTFS', optional: true, completes: 'file' },
  options: [REBUILD_FILE_OPTION, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    [
      'web-1 https://images.example.net/root.img#sha256=DIGEST --wait',
      'run vmhostctl vm stop web-1 --wait first',
    ],
    ['web-1 --file root.json --wait', 'with a signed URL: {"rootfs": {"url": "https://…", "sha256": "…"}}'],
  ],
  beginsAgain: true,
  run: async (context) => {
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = await givenRebuild(context)
    return changeVm(context, context.client().POST('/v1/vms/{id}/rebuild', { params, body }))
  },
}

async function givenRebuild(context: Context): Promise<Rebuild> {
  const { secondOperand: text } = context.given
  const path = context.given.text('file')
  if (path === undefined) {
    if (text === '') throw usageError('it needs ROOTFS or --file', 'see vmhostctl vm rebuild --help')
    return { rootfs: await parseImage(text, 'ROOTFS') }
  }
  if (text !== '') throw usageError('only one of ROOTFS and --file can be given')
  // The daemon checks the content of the file.
  return (await readJsonFile({ path, option: '--file', advice: REBUILD_ADVICE }, context)) as Rebuild
}

type SetBoot = paths['/v1/vms/{id}/boot']['put']['requestBody']['content']['application/json']

const BOOT_OPTIONS: readonly Option[] = [
  {
    name: 'file',
    value: 'FILE',
    help: 'what to change as JSON, - for standard input; other options override it',
    completes: 'file',
  },
  { name: 'kernel', value: 'IMAGE', help: 'URL#sha256=DIGEST, or a path on the host', completes: 'file' },
  {
    name: 'initrd',
    value: 'IMAGE',
    help: 'URL#sha256=DIGEST, or a path on the host; none: no initrd',
    completes: 'file',
  },
  { name: 'kernel-arguments', value: 'TEXT', help: 'appended to those of the host; none: remove them' },
]

const BOOT_ADVICE =
  'the file is the JSON body of PUT /v1/vms/{id}/boot, e.g. {"kernel": {"url": "https://…", "sha256": "…"}, "initrd": null}'

export const bootCommand: Command = {
  words: ['vm', 'boot'],
  summary: 'change kernel, initrd and kernel arguments of a stopped VM',
  description:
    'The disk stays. Options that are not given change nothing. The VM must be stopped, which discards a saved state. ' +
    '--wait ends when the images are on the host. Keep signed URLs in a file: a command line is seen by every user of the ' +
    'machine.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...BOOT_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --kernel /srv/images/vmlinuz --initrd none', 'run vmhostctl vm stop web-1 --wait first'],
    ['web-1 --kernel-arguments quiet', 'other arguments for the same kernel'],
    ['web-1 --file boot.json --wait', 'with a signed URL: {"kernel": {"url": "https://…", "sha256": "…"}}'],
  ],
  run: async (context) => {
    requireOne(context, BOOT_OPTIONS)
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = await givenBoot(context)
    return changeVm(context, context.client().PUT('/v1/vms/{id}/boot', { params, body }))
  },
}

async function givenBoot(context: Context): Promise<SetBoot> {
  const { given } = context
  const path = given.text('file')
  const file =
    path === undefined ? {} : await readJsonFile({ path, option: '--file', advice: BOOT_ADVICE }, context)
  const [kernel, initrd, text] = [given.text('kernel'), given.text('initrd'), given.text('kernel-arguments')]
  // The daemon checks the content of the file.
  return {
    ...file,
    ...(kernel === undefined ? {} : { kernel: await parseImage(kernel, '--kernel') }),
    ...(initrd === undefined
      ? {}
      : { initrd: initrd === REMOVED ? null : await parseImage(initrd, '--initrd') }),
    ...(text === undefined ? {} : { kernel_arguments: text === REMOVED ? null : text }),
  }
}
