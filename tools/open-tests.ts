import path from 'node:path'
import type { TestEvent } from 'node:test/reporters'

type Place = Pick<Extract<TestEvent, { type: 'test:dequeue' }>['data'], 'line' | 'column' | 'name' | 'file'>

/** A test that failed, or a file whose process was killed. */
type Failed = Extract<TestEvent, { type: 'test:fail' }>['data']

const whole = (file: string | undefined): string => path.resolve(file ?? '')

/** Two tests of one file differ in their place, or in their name when a loop declares both. */
const keyOf = ({ line, column, name }: Place): string => `${line}:${column}:${name}`

/** A file's own process counts as a test that has the name of the file. */
const isFile = ({ name, file }: Pick<Place, 'name' | 'file'>): boolean => whole(name) === whole(file)

/** The tests that have begun and not ended, by file. They say where a file was when its process was killed. */
export class OpenTests {
  readonly #open = new Map<string, Map<string, string>>()

  note({ type, data }: TestEvent): void {
    if (type !== 'test:dequeue' && type !== 'test:complete') return
    const open = this.#open.get(whole(data.file)) ?? new Map<string, string>()
    this.#open.set(whole(data.file), open)
    if (type === 'test:complete') open.delete(keyOf(data))
    else if (!isFile(data)) open.set(keyOf(data), `${data.name} (line ${data.line ?? 1})`)
  }

  /** Returns a line that names the open tests when a whole file failed, or nothing. */
  sentence(failed: Failed): string {
    const open = isFile(failed) ? [...(this.#open.get(whole(failed.file))?.values() ?? [])] : []
    return open.length === 0 ? '' : `These had begun and not ended: ${open.join(', ')}\n`
  }
}
