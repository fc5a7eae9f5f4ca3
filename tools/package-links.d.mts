export function targetOf(page: string, link: string): string | undefined
export function addressLinks(
  text: string,
  p: { page: string; isInPackage: (path: string) => boolean; address: string; tag: string },
): string
export function packedFiles(): string[]
export function isIn(files: readonly string[]): (path: string) => boolean
