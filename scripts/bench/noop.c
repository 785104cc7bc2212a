/* The program of which only the start and the end are measured. */
int main(void)
{
	return 0;
}
