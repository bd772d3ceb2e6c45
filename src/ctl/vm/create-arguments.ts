/** Reads what a new VM is made from: its images, and who may log in (SSH keys, user data for cloud-init). */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { usageError, CtlError } from '../ctl-error.ts'
import { readOptionFile } from '../json-file.ts'
import { exitStatus } from '../exit-status.ts'
import type { Stats } from 'node:fs'
import type { CreateVm } from '../../client/api-client.ts'
import type { Context, Option } from '../command.ts'

export const ACCESS_OPTIONS: readonly Option[] = [
  {
    name: 'user-data',
    value: 'FILE',
    help: 'cloud-config for the guest, - for standard input',
    completes: 'file',
  },
  {
    name: 'ssh-key',
    value: 'FILE',
    many: true,
    help: 'a file with public keys that may log in',
    completes: 'file',
  },
]

/** Reads the files that the options name. */
export async function givenAccess(
  context: Context,
): Promise<Pick<CreateVm, 'user_data' | 'ssh_authorized_keys'>> {
  const { given } = context
  const userData = given.text('user-data')
  const files = given.texts('ssh-key')
  return {
    ...(userData === undefined ? {} : { user_data: await readUserData(userData, context) }),
    ...(files.length === 0 ? {} : { ssh_authorized_keys: await readKeys(files, context) }),
  }
}

/** Reads user data, and warns of what cloud-init would ignore. */
export async function readUserData(file: string, context: Context): Promise<string> {
  const text = await readOptionFile(file, '--user-data', context)
  const ignored = whyIgnored(text)
  if (ignored !== undefined) context.warn(`${context.given.operand}: ${ignored}`)
  return text
}

/** Reads files with keys. Throws a usage error if there is none in them. */
export async function readKeys(files: readonly string[], context: Context): Promise<string[]> {
  const texts = await Promise.all(files.map((file) => readOptionFile(file, '--ssh-key', context)))
  const keys = texts.flatMap(keysIn)
  if (keys.length === 0) throw usageError(`there is no key in ${files.join(', ')}`)
  return keys
}

/** Describes the members of a request that the daemon never shows. */
export const accessWords = ({ ssh_authorized_keys: keys, user_data: userData }: CreateVm): string =>
  `${keysWords(keys)} and ${userDataWords(userData)}`

/** Describes keys. A file may have any value here; the daemon reports a wrong one. */
export function keysWords(given: unknown): string {
  const keys = Array.isArray(given) ? given.length : 0
  return keys === 0 ? 'no SSH key' : `${keys} SSH key${keys === 1 ? '' : 's'}`
}

export const userDataWords = (given: unknown): string =>
  typeof given === 'string' ? `user data of ${Buffer.byteLength(given)} bytes` : 'no user data'

/**
 * Returns the keys of a .pub or authorized_keys file (sshd(8)), without comments. A private key given by accident is
 * not among them.
 */
function keysIn(text: string): string[] {
  if (text.includes('PRIVATE KEY'))
    throw usageError('--ssh-key is a private key', 'give the file that ends in .pub')
  const lines = text.split('\n').map((line) => line.trim())
  return lines.filter((line) => line !== '' && !line.startsWith('#'))
}

/** First bytes of user data that cloud-init acts on (cloud-init, "User-data formats"). */
const BEGINNINGS: readonly string[] = [
  ...['#cloud-config', '#cloud-config-archive', '#cloud-config-jsonp', '#cloud-boothook', '#part-handler'],
  ...['#!', '#include', '#include-once', '## template: jinja'],
  ...['Content-Type: multipart', 'MIME-Version:'],
]

/** Says why cloud-init would silently ignore this user data; undefined if it would not. */
export function whyIgnored(text: string): string | undefined {
  const first = text.trimStart().slice(0, 64).toLowerCase()
  if (BEGINNINGS.some((beginning) => first.startsWith(beginning.toLowerCase()))) return undefined
  return 'the user data begins with none of the words that cloud-init knows, such as #cloud-config or #!: cloud-init will ignore it silently'
}

export type Image = CreateVm['image']['rootfs']

const FORM =
  'write https://…#sha256=DIGEST, with the digest that sha256sum prints, or the path of a file on the host'

/** Names no path of the command line, because it may be a signed URL that was mistyped. */
const PATH_FORM = 'write a # in a path as %23: file:///srv/images/root%231.img'

/**
 * Parses `URL#sha256=DIGEST`, or a file: its path or `file:` URL, whose digest is computed here. The fragment of a URL
 * is never sent (RFC 3986, 3.5), so the digest does not change the URL that was signed. Throws CtlError.
 */
export async function parseImage(text: string, option: string): Promise<Image> {
  const [address, fragment] = split(text)
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(address)?.[1]?.toLowerCase()
  const isFile = scheme === undefined || scheme === 'file'
  const sha256 =
    fragment === undefined ? undefined : digestOf(fragment, option, isFile ? [FORM, PATH_FORM] : [FORM])
  if (scheme === 'https' || scheme === 'http') {
    if (sha256 === undefined) throw usageError(`${option} needs the digest of the image behind its URL`, FORM)
    return { url: address, sha256 }
  }
  if (!isFile) throw usageError(`${option}: an image cannot be fetched by ${scheme}:`, FORM)
  const file = scheme === 'file' ? pathOf(address, option) : resolve(address)
  return { url: pathToFileURL(file).href, sha256: sha256 ?? (await digestOfFile(file, option)) }
}

function split(text: string): [address: string, fragment: string | undefined] {
  const at = text.lastIndexOf('#')
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

function digestOf(fragment: string, option: string, forms: readonly string[]): string {
  const [, digest] = /^sha256[=:]([0-9a-f]{64})$/i.exec(fragment) ?? []
  if (digest === undefined) throw usageError(`${option}: what follows # is not sha256=DIGEST`, ...forms)
  return digest.toLowerCase()
}

function pathOf(url: string, option: string): string {
  try {
    return fileURLToPath(url)
  } catch (cause) {
    throw new CtlError(`${option}: this is not a file: URL of a local path`, {
      code: 'usage',
      status: exitStatus.usage,
      advice: ['write file:///srv/images/root.img, or the path alone'],
      cause,
    })
  }
}

async function digestOfFile(path: string, option: string): Promise<string> {
  const hash = createHash('sha256')
  try {
    const found = await stat(path)
    // A FIFO would block the open until another process writes to it, and the daemon refuses all of these.
    if (!found.isFile()) throw notRegular(option, found)
    await pipeline(createReadStream(path), hash)
  } catch (cause) {
    if (cause instanceof CtlError) throw cause
    const isMissing = cause instanceof Error && Reflect.get(cause, 'code') === 'ENOENT'
    throw new CtlError(`${option}: the image cannot be read to compute its digest`, {
      code: 'usage',
      status: exitStatus.usage,
      advice: isMissing ? ['if it is on another host, give its digest: file:///path#sha256=DIGEST'] : [],
      cause,
    })
  }
  return hash.digest('hex')
}

const notRegular = (option: string, found: Stats): CtlError =>
  usageError(`${option}: the image is not a regular file${found.isDirectory() ? ', but a directory' : ''}`)
