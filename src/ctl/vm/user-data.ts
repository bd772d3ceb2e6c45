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
  return 'the user data begins with none of the words that cloud-init knows, such as #cloud-config or #!: it will ignore it in silence'
}
