/*
 * `./dev images`: runs the commands of docs/images.md as they stand there, on stand-ins for the images of
 * distributions, and boots what they made in a lab.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { labDown, labExec, labUp } from '../lab/lab.ts'
import type { LabState } from '../lab/lab.ts'
import { ensurePackages } from './apt.ts'
import { buildDeb } from './deb.ts'
import { readBlocks } from './images/blocks.ts'
import { recipesFrom } from './images/recipes.ts'
import type { Recipes } from './images/recipes.ts'
import { BOOT_FILES, CONTAINER_ROOT, DEBIAN_IMAGE, ensureStandIns, UBUNTU_IMAGE } from './images/stand-ins.ts'
import { withCleanup } from './interrupt.ts'
import { cachePath } from './paths.ts'
import { run, runChecked } from './process.ts'
import { step } from './step.ts'

const LAB = 'images'
const NEEDS = [
  { name: 'mmdebstrap', probe: '/usr/bin/mmdebstrap', why: 'it makes the stand-ins from Debian packages' },
  { name: 'fdisk', probe: '/usr/sbin/sfdisk', why: 'it gives them partitions' },
  { name: 'dosfstools', probe: '/usr/sbin/mkfs.vfat', why: 'it formats one of these as an EFI partition' },
  { name: 'qemu-utils', probe: '/usr/bin/qemu-img', why: 'docs/images.md converts images with it' },
  { name: 'buildah', probe: '/usr/bin/buildah', why: 'docs/images.md builds a container image with it' },
  { name: 'lz4', probe: '/usr/bin/lz4', why: 'docs/images.md unpacks a kernel with it' },
]

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2YbSXk0PlsXYbqLwH2uVrkZ6ptuQyPIUJxQnZWLk3A reader\n'
/** An emulated Debian needs minutes for its first boot on a busy machine. */
const COMMANDS_BOUND_MS = 20 * 60_000

/** Returns the exit status: 0 only if every guest booted and had its seed. */
export async function main(args: readonly string[]): Promise<number> {
  if (args.length > 0) {
    console.log(
      './dev images: tries docs/images.md as written, in about a quarter of an hour: makes images from stand-ins for a cloud image and a container image, and boots them.',
    )
    return args.includes('--help') ? 0 : 2
  }
  if (process.arch !== 'x64')
    throw new Error('docs/images.md was written for amd64: ./dev images runs only there')
  const recipes = recipesFrom(readBlocks())
  await ensurePackages(NEEDS)
  const standIns = await ensureStandIns()
  await buildDeb()
  const work = path.join(cachePath('run'), `images-work.${process.pid}`)
  const cleanUp = async (): Promise<void> => {
    await labDown(LAB)
    await run(['buildah', 'rm', '--all'], { env: storageIn(work) })
    rmSync(work, { recursive: true, force: true })
  }
  await labDown(LAB)
  mkdirSync(work)
  return withCleanup(cleanUp, async () => {
    const debian = await fromDisk(recipes, { work, standIns, image: DEBIAN_IMAGE, script: recipes.debian })
    await fromDisk(recipes, { work, standIns, image: UBUNTU_IMAGE, script: recipes.ubuntu })
    const container = await fromContainer(recipes, { work, standIns })
    const lab = await labUp(LAB)
    await install(lab)
    await bootIn(lab, recipes, { what: 'cloud image', folder: debian, hasAgent: false })
    await bootIn(lab, recipes, {
      what: 'whole disk of the cloud image',
      folder: wholeDisk(debian),
      hasAgent: false,
      options: '--kernel-arguments root=/dev/vda1',
    })
    await bootIn(lab, recipes, { what: 'container image', folder: container, hasAgent: true })
    console.log('docs/images.md holds')
    return 0
  })
}

type Place = { readonly work: string; readonly standIns: string }

/** Runs the recipe for a cloud image; returns the folder with its three files. */
async function fromDisk(
  recipes: Recipes,
  { work, standIns, image, script }: Place & { readonly image: string; readonly script: string },
): Promise<string> {
  const folder = path.join(work, image)
  mkdirSync(folder)
  return step(`make images from ${image}`, async (log) => {
    copyFileSync(path.join(standIns, image), path.join(folder, image))
    await log.run(['sh', '-e'], { cwd: folder, input: script })
    for (const name of BOOT_FILES) {
      const [made, given] = [folder, standIns].map((place) => digestOf(path.join(place, name)))
      if (made !== given) throw new Error(`the ${name} is not the one of the image`)
    }
    // Without -e: lz4 ends with an error when it comes to what stands behind the kernel.
    await log.run(['sh'], { cwd: folder, input: `${recipes.vmlinux}true\n` })
    if (readFileSync(path.join(folder, 'vmlinux')).toString('latin1', 0, 4) !== '\x7fELF')
      throw new Error('vmlinux is not an ELF file')
    return folder
  })
}

const digestOf = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

/** Keeps containers of this run out of the storage of the machine (containers-storage.conf(5)). */
const storageIn = (work: string): NodeJS.ProcessEnv => ({
  ...process.env,
  CONTAINERS_STORAGE_CONF: path.join(work, 'storage.conf'),
})

/** Runs the recipe for a container image; returns the folder with its three files. */
async function fromContainer(recipes: Recipes, { work, standIns }: Place): Promise<string> {
  const folder = path.join(work, 'container')
  mkdirSync(folder)
  const lines = [
    '[storage]',
    'driver = "overlay"',
    `graphroot = "${work}/graph"`,
    `runroot = "${work}/state"`,
  ]
  writeFileSync(path.join(work, 'storage.conf'), `${lines.join('\n')}\n`)
  writeFileSync(path.join(folder, 'Containerfile'), recipes.containerfile)
  return step('make images from a container image', async (log) => {
    const options = { cwd: folder, env: storageIn(work) }
    const base = `container=$(buildah from scratch)
      buildah add --quiet "$container" ${path.join(standIns, CONTAINER_ROOT)} /
      buildah commit --quiet --rm "$container" docker.io/library/debian:12`
    await log.run(['sh', '-e'], { ...options, input: base })
    await log.run(['sh', '-e'], { ...options, input: recipes.container })
    return folder
  })
}

/** Installs the daemon in the lab as the page says, with a key of a user. */
async function install(lab: LabState): Promise<void> {
  const script = `dpkg --install /src/dist/*.deb
    vmhostd setup --local-images-directory /srv/images
    mkdir -p ~/.ssh /srv/images
    cat >~/.ssh/id_ed25519.pub
    systemctl start vmhostd`
  await step('install the daemon', () => commands(lab, script, KEY))
}

/** Runs commands in the lab; returns their output. */
async function commands(lab: LabState, script: string, input = ''): Promise<string> {
  const argv = ['sh', '-ec', script]
  const { code, stdout, stderr } = await labExec(lab, argv, { input, timeoutMs: COMMANDS_BOUND_MS })
  if (code !== 0) throw new Error(`status ${code}: ${stdout}\n${stderr}`)
  return stdout
}

/** Lines that the shell in the guest must print. */
const SEEN: Readonly<Record<string, RegExp>> = {
  'cloud-init is done': /^status: done\r?$/m,
  'the seed was read': /DataSourceNoCloud \[seed=\/dev\/vdb\]/,
  'the user data was used': /^made of my image\r?$/m,
  'the guest has its name': /^web-1\r?$/m,
  'the file system has grown': /^\/dev\/vda1? +[34]\.\dG/m,
  'there is a default route': /^default via 169\.254\.0\.1 /m,
  'nothing failed': /^0 loaded units listed/m,
  'the port of the agent is there': /org\.qemu\.guest_agent\.0 ->/,
  'the key of the user is known': /^key of reader\r?$/m,
}

type Observed = {
  readonly guest?: { readonly agent_since?: string }
  readonly last_stop?: { readonly how: string }
}

async function observed(lab: LabState): Promise<Observed> {
  const vm = JSON.parse(await commands(lab, 'vmhostctl vm get web-1 --json')) as { observed: Observed }
  return vm.observed
}

type Made = {
  readonly what: string
  readonly folder: string
  readonly hasAgent: boolean
  /** Further arguments of the command that creates the VM. */
  readonly options?: string
}

/** Makes the whole disk of a recipe the root image; returns the folder with its three files. */
function wholeDisk(folder: string): string {
  const whole = `${folder}.whole`
  mkdirSync(whole)
  for (const name of ['vmlinuz', 'initrd']) linkSync(path.join(folder, name), path.join(whole, name))
  linkSync(path.join(folder, 'disk.raw'), path.join(whole, 'root.img'))
  return whole
}

/** Boots images by the commands of the page, looks at the guest from inside, lets it sleep and wake, and stops it. */
async function bootIn(lab: LabState, recipes: Recipes, of: Made): Promise<void> {
  const inLab = `/proc/${lab.leader?.pid}/root/root/made`
  await step(`put the ${of.what} on a host`, async () => {
    rmSync(inLab, { recursive: true, force: true })
    mkdirSync(inLab)
    const files = ['vmlinuz', 'initrd', 'root.img'].map((name) => path.join(of.folder, name))
    await runChecked(['cp', '--sparse=always', ...files, inLab])
    await commands(lab, `cd ~/made\n${recipes.place}${recipes.check}`)
  })
  const boot = recipes.boot.replace('vm create web-1 ', (create) => `${create}${of.options ?? ''} `)
  await step('boot it', () => commands(lab, `cd ~/made\n${boot}`))
  await step('log in to it', async (log) => {
    const typed = `${recipes.inGuest}grep -q reader /root/.ssh/authorized_keys && echo key of rea""der\nexit\n`
    const shown = await commands(lab, 'vmhostctl console web-1 --ssh', typed)
    log.write(shown)
    const missing = Object.entries(SEEN).filter(([, pattern]) => !pattern.test(shown))
    if (missing.length > 0) throw new Error(`not seen: ${missing.map(([what]) => what).join(', ')}`)
  })
  await step('let it sleep, and wake it', () =>
    commands(lab, `${recipes.sleep}vmhostctl console web-1 --ssh`, 'exit\n'),
  )
  await step('stop it in order', async () => {
    const { guest } = await observed(lab)
    if ((guest?.agent_since !== undefined) !== of.hasAgent) throw new Error(`agent: ${JSON.stringify(guest)}`)
    await commands(lab, recipes.stop)
    const { last_stop: stop } = await observed(lab)
    if (stop?.how === 'graceful') return
    const lines = await commands(lab, 'journalctl -o cat -u vmhostd -u vmhost-web-1 | tail -n 60')
    throw new Error(`its last stop: ${JSON.stringify(stop)}\n${lines}`)
  })
  await commands(lab, 'vmhostctl vm rm web-1 --wait')
}
