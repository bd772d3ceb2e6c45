import { usageError } from '../ctl-error.ts'
import { changeVm, DRY_RUN_OPTION, dryRunQuery } from './change.ts'
import { parseImage, accessWords, ACCESS_OPTIONS, givenAccess } from './create-arguments.ts'
import { parseCheck, parseLabel, givenNameServers, givenShape, SHAPE_OPTIONS } from './settings.ts'
import { EXIT_OPTIONS, givenExit } from './exit.ts'
import { given as present } from '../../lib/given.ts'
import { readJsonFile } from '../json-file.ts'
import { WAIT_OPTIONS } from './wait.ts'
import type { CreateVm } from '../../client/api-client.ts'
import type { Command, Context, Option } from '../command.ts'

const POWERS = ['running', 'stopped', 'paused'] as const satisfies readonly CreateVm['power'][]

const MONITORS = ['qemu', 'firecracker'] as const satisfies readonly CreateVm['monitor'][]

const IMAGE = 'URL#sha256=DIGEST, or the path of a file on the host, whose digest is computed'

const CREATE_OPTIONS: readonly Option[] = [
  {
    name: 'file',
    value: 'FILE',
    help: 'the whole request as JSON, - for standard input; other options override it',
    completes: 'file',
  },
  { name: 'rootfs', value: 'IMAGE', help: `raw root disk: ${IMAGE}`, completes: 'file' },
  { name: 'kernel', value: 'IMAGE', help: 'kernel, in the same form', completes: 'file' },
  { name: 'initrd', value: 'IMAGE', help: 'initial RAM disk, in the same form', completes: 'file' },
  { name: 'kernel-arguments', value: 'TEXT', help: 'appended to the kernel arguments of the host' },
  ...SHAPE_OPTIONS,
  { name: 'ipv4', value: 'ADDRESS', help: 'address of the guest; without an address it has no network' },
  { name: 'ipv6', value: 'ADDRESS', help: 'address of the guest' },
  {
    name: 'ipv6-prefix',
    value: 'NETWORK',
    help: 'a network that the host routes to the guest, e.g. 2001:db8:1::/64',
  },
  { name: 'mac', value: 'ADDRESS', help: "of the guest's network device; the host chooses if not given" },
  {
    name: 'name-server',
    value: 'ADDRESS',
    many: true,
    help: 'for the guest; none: no name server; the host chooses if not given',
  },
  {
    name: 'power',
    value: 'STATE',
    help: 'its power state after the creation; running if not given',
    completes: POWERS,
  },
  {
    name: 'monitor',
    value: 'KIND',
    help: 'the program that runs it, for its whole life; the host chooses if not given',
    completes: MONITORS,
  },
  {
    name: 'readiness',
    value: 'CHECK',
    help: 'how to check that its guest is ready: tcp:22 or http:80/healthz; if not given, it is ready when its agent is seen',
    check: parseCheck,
  },
  { name: 'label', value: 'KEY=VALUE', many: true, help: 'a label to find it by', check: parseLabel },
  { name: 'protected', help: 'refuse its deletion' },
  ...EXIT_OPTIONS,
  ...ACCESS_OPTIONS,
]

const FILE_ADVICE = 'the file is the JSON body of PUT /v1/vms/{id}; "vmhostctl vm create --help" shows one'

/** Values of a VM that is created without --file. */
const DEFAULTS = {
  cpu_millicores: 1000,
  memory_mib: 512,
  disk: { size_mib: 2048 },
  sleep_after_idle_seconds: 0,
}

export const createCommand: Command = {
  words: ['vm', 'create'],
  summary: 'create a VM',
  description:
    'Takes options for the common case, or a JSON file for everything. Without --file the VM has 1 CPU, 512 MiB of memory ' +
    'and a disk of 2 GiB. Repeating the same command is safe. Keep signed URLs in a file: a command line is seen by every ' +
    'user of the machine.',
  operand: { placeholder: 'NAME' },
  options: [...CREATE_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    [
      'web-1 --kernel /srv/images/vmlinuz --initrd /srv/images/initrd --rootfs /srv/images/root.img --ipv4 192.0.2.10 --wait',
      'images on the host, below its storage.local_images_directory',
    ],
    [
      'web-1 --kernel https://images.example.net/vmlinux#sha256=5a1c… --rootfs https://images.example.net/root.img#sha256=9f86… --cpu 2 --memory 4G --disk 20G',
      'images from elsewhere, with the digests that sha256sum prints',
    ],
    ['web-1 --file web.json --ipv4 192.0.2.11', 'a file as a template'],
    [
      `web-1 --file - <<<'{"power": "running", "compute": {"cpu_millicores": 1000, "memory_mib": 512, "sleep_after_idle_seconds": 0}, "disk": {"size_mib": 2048}, "image": {"rootfs": {"url": "https://…", "sha256": "…"}, "kernel": {"url": "https://…", "sha256": "…"}}}'`,
      'the shortest request; /docs of the daemon lists every member',
    ],
  ],
  run: async (context) => {
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = await requestOf(context)
    const call = context.client().PUT('/v1/vms/{id}', { params, body })
    return changeVm(context, call, { unshown: accessWords(body) })
  },
}

const readSpec = (path: string, context: Context): Promise<Record<string, unknown>> =>
  readJsonFile({ path, option: '--file', advice: FILE_ADVICE }, context)

/** An incomplete request: with a file any member may be missing, and the daemon reports which. */
type Draft = { [K in keyof CreateVm]?: CreateVm[K] | undefined }

async function requestOf(context: Context): Promise<CreateVm> {
  const file = context.given.text('file')
  const template: Draft =
    file === undefined ? { power: 'running', ...shapeMembers(DEFAULTS) } : await readSpec(file, context)
  const image = { ...objectIn(template.image), ...(await givenImages(context)) }
  if (file === undefined) requireImages(image)
  const network = { ...objectIn(template.network), ...givenNetwork(context) }
  const shape = shapeMembers(givenShape(context))
  const draft: Draft = {
    ...template,
    image: image as CreateVm['image'],
    compute: { ...objectIn(template.compute), ...shape.compute } as CreateVm['compute'],
    disk: { ...objectIn(template.disk), ...shape.disk } as CreateVm['disk'],
    ...(Object.keys(network).length === 0 ? {} : { network }),
    ...givenPower(context),
    ...givenMonitor(context),
    ...givenReadiness(context),
    ...exitOf(context),
    ...(await givenAccess(context)),
    ...givenMetadata(context, template.labels),
  }
  // The daemon checks this draft, so a wrong type may pass here.
  return draft as CreateVm
}

const objectIn = (value: unknown): object => (typeof value === 'object' && value !== null ? value : {})

function shapeMembers({ disk, wake, ...rest }: ReturnType<typeof givenShape>) {
  const compute = { ...rest, ...(wake === undefined ? {} : { wake: wake ?? undefined }) }
  return {
    ...(Object.keys(compute).length === 0 ? {} : { compute: compute as CreateVm['compute'] }),
    ...present({ disk }),
  }
}

function requireImages(image: object): void {
  const missing = ['rootfs', 'kernel'].filter((role) => !(role in image)).map((role) => `--${role}`)
  if (missing.length === 0) return
  throw usageError(`it needs ${missing.join(' and ')}, or --file`, 'see vmhostctl vm create --help')
}

async function givenImages({ given }: Context): Promise<Partial<CreateVm['image']>> {
  const images: Partial<CreateVm['image']> = {}
  for (const role of ['rootfs', 'kernel', 'initrd'] as const) {
    const text = given.text(role)
    if (text !== undefined) images[role] = await parseImage(text, `--${role}`)
  }
  const more = given.text('kernel-arguments')
  return more === undefined ? images : { ...images, kernel_arguments: more }
}

function givenNetwork({ given }: Context): NonNullable<CreateVm['network']> {
  const members = {
    ipv4_address: given.text('ipv4'),
    ipv6_address: given.text('ipv6'),
    ipv6_prefix: given.text('ipv6-prefix'),
    mac_address: given.text('mac'),
    name_servers: givenNameServers(given.texts('name-server')),
  }
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}

function givenReadiness({ given }: Context): Pick<Draft, 'readiness'> {
  const text = given.text('readiness')
  return text === undefined ? {} : { readiness: parseCheck(text, '--readiness') }
}

function givenPower({ given }: Context): Pick<Draft, 'power'> {
  const power = POWERS.find((name) => name === given.text('power'))
  return power === undefined ? {} : { power }
}

/** Returns what the options say about the end of the guest. What they take back is absent from a new VM. */
const exitOf = (context: Context): Partial<Draft> =>
  Object.fromEntries(Object.entries(givenExit(context)).map(([name, value]) => [name, value ?? undefined]))

function givenMonitor({ given }: Context): Pick<Draft, 'monitor'> {
  const monitor = MONITORS.find((kind) => kind === given.text('monitor'))
  return monitor === undefined ? {} : { monitor }
}

function givenMetadata({ given }: Context, labels: Draft['labels']): Pick<Draft, 'labels' | 'protected'> {
  const pairs = given.texts('label').map((label) => parseLabel(label, '--label'))
  return {
    ...(pairs.length === 0 ? {} : { labels: { ...labels, ...Object.fromEntries(pairs) } }),
    ...(given.isSet('protected') ? { protected: true } : {}),
  }
}
